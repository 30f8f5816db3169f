// SPDX-License-Identifier: Apache-2.0
// What Java's buffers over a tensor keep: the tensor, until the last of them is gone, and nothing any longer.
import isthmus.Tensor;
import java.lang.ref.Reference;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.UnaryOperator;

public final class Keeps {
    private static final int ROUNDS = 40;

    private static void collect() throws InterruptedException {
        System.gc();
        Thread.sleep(10);
    }

    private static void check(String what, boolean good) {
        if (!good) throw new AssertionError(what);
    }

    private static ByteBuffer bytesOfATensor(AtomicInteger released) {
        ByteBuffer memory = ByteBuffer.allocateDirect(16).order(ByteOrder.nativeOrder());
        memory.putFloat(0, 42);
        return Tensor.wrap(memory, new long[] {4}, "float32", released::incrementAndGet).bytes();
    }

    private static void keeps(String what, UnaryOperator<ByteBuffer> derive) throws InterruptedException {
        AtomicInteger released = new AtomicInteger();
        ByteBuffer bytes = derive.apply(bytesOfATensor(released));
        for (int i = 0; i < ROUNDS; ++i) collect();
        check(what + ": the owner went while a buffer was there", released.get() == 0);
        check(what + ": other elements", bytes.order(ByteOrder.nativeOrder()).getFloat(0) == 42);
        Reference.reachabilityFence(bytes);
        bytes = null;
        for (int i = 0; i < 10 * ROUNDS && released.get() == 0; ++i) collect();
        check(what + ": the owner never went", released.get() == 1);
    }

    private static void closes() throws InterruptedException {
        AtomicInteger released = new AtomicInteger();
        ByteBuffer memory = ByteBuffer.allocateDirect(16).order(ByteOrder.nativeOrder());
        Tensor tensor = Tensor.wrap(memory, new long[] {4}, "float32", released::incrementAndGet);
        ByteBuffer bytes = tensor.bytes();
        tensor.close();
        check("close: the owner went while a buffer was there", released.get() == 0);
        check("close: the tensor is open", refuses(tensor));
        bytes.putFloat(0, 1);
        Reference.reachabilityFence(bytes);
        bytes = null;
        for (int i = 0; i < 10 * ROUNDS && released.get() == 0; ++i) collect();
        check("close: the owner never went", released.get() == 1);
    }

    private static boolean refuses(Tensor closed) {
        try {
            closed.bytes();
            return false;
        } catch (IllegalStateException expected) {
            return true;
        }
    }

    public static void main(String[] arguments) throws InterruptedException {
        keeps("bytes()", bytes -> bytes);
        keeps("slice()", bytes -> bytes.slice(0, 8));
        keeps("duplicate()", ByteBuffer::duplicate);
        keeps("asReadOnlyBuffer()", ByteBuffer::asReadOnlyBuffer);
        closes();
        System.out.println("ok");
    }
}
