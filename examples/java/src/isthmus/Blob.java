// SPDX-License-Identifier: Apache-2.0
package isthmus;

import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.stream.Collectors;

/**
 * A tensor as plain numbers and names, and as a message of them, which two runtimes in one process can exchange without
 * knowing each other's objects. {@code owner} and {@code release} are addresses: whoever takes the blob calls
 * {@code release(owner)} once.
 */
public record Blob(
        long ptr, long[] shape, long[] strides, String dtype, String device, long elementSize, boolean readOnly,
        long owner, long release) {

    /** "ptr=140204;shape=2,3;strides=3,1;dtype=float32;…" */
    public String toMessage() {
        return "ptr=" + ptr + ";shape=" + join(shape) + ";strides=" + join(strides) + ";dtype=" + dtype
                + ";device=" + device + ";element_size=" + elementSize + ";read_only=" + (readOnly ? 1 : 0)
                + ";owner=" + owner + ";release=" + release;
    }

    public static Blob fromMessage(String message) {
        Map<String, String> fields = new HashMap<>();
        for (String field : message.split(";")) {
            int at = field.indexOf('=');
            if (at < 0) throw new IllegalArgumentException("found \"" + field + "\"; expected name=value");
            fields.put(field.substring(0, at), field.substring(at + 1));
        }
        return new Blob(
                Long.parseLong(fields.get("ptr")),
                split(fields.get("shape")),
                fields.containsKey("strides") ? split(fields.get("strides")) : null,
                fields.get("dtype"),
                fields.getOrDefault("device", "cpu"),
                Long.parseLong(fields.getOrDefault("element_size", "0")),
                fields.getOrDefault("read_only", "0").equals("1"),
                Long.parseLong(fields.getOrDefault("owner", "0")),
                Long.parseLong(fields.getOrDefault("release", "0")));
    }

    private static String join(long[] values) {
        return Arrays.stream(values).mapToObj(Long::toString).collect(Collectors.joining(","));
    }

    private static long[] split(String text) {
        return text.isEmpty() ? new long[0] : Arrays.stream(text.split(",")).mapToLong(Long::parseLong).toArray();
    }
}
