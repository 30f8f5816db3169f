// SPDX-License-Identifier: Apache-2.0
package isthmus;

import java.lang.ref.Cleaner;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.concurrent.atomic.AtomicLong;

/** One reference on a tensor. Closing it, or losing it to the garbage collector, gives the reference back once. */
public final class Tensor implements AutoCloseable {
    private static final Cleaner CLEANER = Cleaner.create();

    static {
        System.load(System.getProperty("isthmus.jni"));
    }

    private final Reference reference;
    private final Cleaner.Cleanable cleanable;

    // Apart from the tensor, which the cleaner must not keep alive.
    private static final class Reference implements Runnable {
        private final AtomicLong handle;

        Reference(long handle) {
            this.handle = new AtomicLong(handle);
        }

        long get() {
            long value = handle.get();
            if (value == 0) throw new IllegalStateException("the tensor is closed");
            return value;
        }

        @Override
        public void run() {
            long value = handle.getAndSet(0);
            if (value != 0) release0(value);
        }
    }

    private Tensor(long handle) {
        reference = new Reference(handle);
        cleanable = CLEANER.register(this, reference);
    }

    /** Takes the blob and its owner, which is released at once when the blob is refused. */
    public static Tensor fromBlob(Blob b) {
        return new Tensor(fromBlob0(b.ptr(), b.shape(), b.strides(), b.dtype(), b.device(), b.elementSize(), b.readOnly(),
                b.owner(), b.release()));
    }

    /** Wraps the memory of a direct buffer, row-major from its beginning; runs {@code released} when it is released. */
    public static Tensor wrap(ByteBuffer buffer, long[] shape, String dtype, Runnable released) {
        if (!buffer.isDirect())
            throw new IllegalArgumentException("found a buffer on the Java heap, which moves; expected a direct one");
        return new Tensor(wrap0(buffer, shape, dtype, released));
    }

    /** A blob that holds a reference: whoever takes it calls release(owner). */
    public Blob toBlob() {
        try {
            Object[] fields = toBlob0(reference.get());
            long[] numbers = (long[]) fields[0];
            return new Blob(
                    numbers[0], (long[]) fields[1], (long[]) fields[2], (String) fields[3], (String) fields[4],
                    numbers[1], (numbers[2] & 1) != 0, numbers[3], numbers[4]);
        } finally {
            java.lang.ref.Reference.reachabilityFence(this);
        }
    }

    /**
     * The elements of contiguous host memory, in place. The buffer, and every slice and duplicate of it, holds its own
     * reference to the tensor: it stays valid after close(), and the garbage collector releases that reference.
     */
    public ByteBuffer bytes() {
        try {
            Reference shared = new Reference(retain0(reference.get()));
            try {
                ByteBuffer bytes = bytes0(shared.get());
                boolean readOnly = isReadOnly0(shared.get());
                // Buffers made from this one keep it, so that it is the one to be watched.
                CLEANER.register(bytes, shared);
                return (readOnly ? bytes.asReadOnlyBuffer() : bytes).order(ByteOrder.nativeOrder());
            } catch (RuntimeException | Error refused) {
                shared.run();
                throw refused;
            }
        } finally {
            // Else the collector might take the tensor between get() and the call that uses the handle.
            java.lang.ref.Reference.reachabilityFence(this);
        }
    }

    /** The address of a direct buffer: how it is told that two of them are one memory. */
    public static long addressOf(ByteBuffer buffer) {
        return address0(buffer);
    }

    @Override
    public void close() {
        cleanable.clean();
    }

    private static native long fromBlob0(
            long ptr, long[] shape, long[] strides, String dtype, String device, long elementSize, boolean readOnly,
            long owner, long release);

    private static native long wrap0(ByteBuffer buffer, long[] shape, String dtype, Runnable released);

    private static native Object[] toBlob0(long handle);

    private static native ByteBuffer bytes0(long handle);

    private static native boolean isReadOnly0(long handle);

    private static native long address0(ByteBuffer buffer);

    private static native long retain0(long handle);

    private static native void release0(long handle);
}
