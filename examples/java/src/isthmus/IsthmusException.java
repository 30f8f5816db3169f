// SPDX-License-Identifier: Apache-2.0
package isthmus;

/** An error of the library: its status, by number and by name, and its text. */
public final class IsthmusException extends RuntimeException {
    private static final long serialVersionUID = 1;
    private final int status;

    /** Called by the native side. */
    public IsthmusException(int status, String name, String text) {
        super(name + ": " + text);
        this.status = status;
    }

    public int status() {
        return status;
    }
}
