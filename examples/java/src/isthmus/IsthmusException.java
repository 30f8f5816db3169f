// SPDX-License-Identifier: Apache-2.0
package isthmus;

/** What the library refused: the status that it returned, by number and by name, and its text. */
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
