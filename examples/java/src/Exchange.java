// SPDX-License-Identifier: Apache-2.0

import isthmus.Blob;
import isthmus.Tensor;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.FloatBuffer;
import java.util.concurrent.atomic.AtomicInteger;

/** The Java side of exchange.py: answers messages with messages. */
public final class Exchange {
    private static final AtomicInteger RELEASED = new AtomicInteger();
    private static Tensor kept;

    /** Called by the process that hosts the virtual machine. */
    public static String answer(String verb, String message) {
        try {
            return switch (verb) {
                case "double" -> doubled(message);
                case "keep" -> keep(message);
                case "drop" -> drop();
                case "make" -> make(message);
                case "collect" -> collect();
                case "released" -> "count=" + RELEASED.get();
                default -> "error=no such verb: " + verb;
            };
        } catch (Exception e) {
            return "error=" + e.getMessage();
        }
    }

    private static float sum;

    /** Doubles every element in place, on a Java thread. */
    private static String doubled(String message) throws InterruptedException {
        try (Tensor tensor = Tensor.fromBlob(Blob.fromMessage(message))) {
            ByteBuffer bytes = tensor.bytes();
            FloatBuffer elements = bytes.asFloatBuffer();
            String[] failure = {null};
            Thread thread = new Thread(() -> {
                try {
                    sum = 0;
                    for (int i = 0; i < elements.limit(); i++) {
                        elements.put(i, 2 * elements.get(i));
                        sum += elements.get(i);
                    }
                } catch (RuntimeException e) {
                    failure[0] = e.getClass().getSimpleName();
                }
            });
            thread.start();
            thread.join();
            if (failure[0] != null) return "error=" + failure[0];
            return "address=" + Tensor.addressOf(bytes) + ";sum=" + sum;
        }
    }

    private static String keep(String message) {
        kept = Tensor.fromBlob(Blob.fromMessage(message));
        return "first=" + kept.bytes().asFloatBuffer().get(0);
    }

    private static String drop() throws InterruptedException {
        Thread thread = new Thread(kept::close);
        thread.start();
        thread.join();
        kept = null;
        return "dropped=1";
    }

    /** Buffers release their references once the garbage collector has found them, on its own thread. */
    private static String collect() {
        System.gc();
        return "collected=1";
    }

    /** 0, 1, 2, … in a direct buffer of Java, in the given shape. */
    private static String make(String message) {
        long[] shape = Blob.fromMessage("ptr=0;dtype=float32;" + message).shape();
        int count = 1;
        for (long size : shape) count = Math.multiplyExact(count, Math.toIntExact(size));
        ByteBuffer buffer = ByteBuffer.allocateDirect(4 * count).order(ByteOrder.nativeOrder());
        for (int i = 0; i < count; i++) buffer.putFloat(4 * i, i);
        try (Tensor tensor = Tensor.wrap(buffer, shape, "float32", RELEASED::incrementAndGet)) {
            return tensor.toBlob().toMessage() + ";address=" + Tensor.addressOf(buffer);
        }
    }
}
