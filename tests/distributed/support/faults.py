"""Processes that are killed, starved or forked while tensors are between them; each prints what a test looks for."""

from __future__ import annotations

import concurrent.futures
import ctypes
import gc
import multiprocessing
import os
import signal
import sys
import time
from typing import Any

import torch

import isthmus

CONTEXT: Any = multiprocessing.get_context("fork")


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def resident_mib() -> int:
    with open("/proc/self/status") as lines:
        return sum(int(line.split()[1]) for line in lines if line.startswith(("RssAnon", "RssShmem"))) >> 10


def send_and_stay(pipe: Any) -> None:
    pipe.send(torch.ones(1 << 20))
    time.sleep(60)


def sender_killed() -> None:
    """The message is there, its sender is not: its tensor is kept, and nothing is in the file systems."""
    ours, theirs = CONTEXT.Pipe()
    process = CONTEXT.Process(target=send_and_stay, args=(theirs,))
    process.start()
    ours.poll(30)
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    print(float(ours.recv().sum()) == 1 << 20)


def keeper_killed() -> None:
    """What it kept is lost, with one clear error; what is sent then goes by another one."""
    from isthmus.distributed import transit

    ours, theirs = CONTEXT.Pipe()
    theirs.send(torch.ones(1 << 20))
    keeper = transit._desk.address.pid
    os.kill(keeper, signal.SIGKILL)
    try:
        ours.recv()
    except isthmus.Error as error:
        print(error.code, f"process {keeper}, which kept it, has ended" in str(error))
    theirs.send(torch.ones(1 << 20))
    print(float(ours.recv().sum()) == 1 << 20)


def hold(pipe: Any) -> None:
    x = pipe.recv()
    pipe.send(float(x.sum()))
    time.sleep(60)


def receiver_killed() -> None:
    """A receiver that is killed while it holds a tensor gives the memory back: the sender's does not grow."""
    grown = []
    for _ in range(16):
        ours, theirs = CONTEXT.Pipe()
        process = CONTEXT.Process(target=hold, args=(theirs,))
        process.start()
        ours.send(torch.ones(4 << 20))
        assert ours.recv() == 4 << 20
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        ours.close()
        theirs.close()
        grown.append(resident_mib())
    print(grown[-1] - grown[1] < 8, isthmus.distributed.stats()["waiting"])


def read_and_die(pipe: Any) -> None:
    pipe.recv_bytes()
    os.kill(os.getpid(), signal.SIGKILL)


def in_mid_task(pipe: Any, x: torch.Tensor) -> float:
    """Says which process has the tensor, over private pages, and stays there."""
    x[:1000] = 2
    pipe.send(os.getpid())
    time.sleep(60)
    return float(x.sum())


def total(x: torch.Tensor) -> float:
    return float(x.sum())


def pool_worker_killed() -> None:
    """A worker of a Pool is killed in its task: the others' tasks go on, another takes its place,
    and its memory comes back."""
    ours, theirs = CONTEXT.Pipe()
    grown = []
    with CONTEXT.Pool(2) as pool:
        for _ in range(24):
            lost = pool.apply_async(in_mid_task, (theirs, torch.ones(4 << 20)))
            os.kill(ours.recv(), signal.SIGKILL)
            assert pool.map(total, [torch.ones(1 << 20) for _ in range(4)]) == [1 << 20] * 4
            assert not lost.ready()
            grown.append(resident_mib())
    # 16 MiB a round would be 300 by now; what the pool reserves for two rounds at once is not lost.
    print(grown[-1] - grown[4] < 40, isthmus.distributed.stats()["waiting"])


def executor_worker_killed() -> None:
    """concurrent.futures says so; what waits in the executor's own queue stays the sender's,
    and another executor works."""
    ours, theirs = CONTEXT.Pipe()
    x = torch.ones(1 << 20)
    with concurrent.futures.ProcessPoolExecutor(1, CONTEXT) as executor:
        lost = executor.submit(in_mid_task, theirs, x)
        queued = executor.submit(total, x)
        os.kill(ours.recv(), signal.SIGKILL)
        for future in (lost, queued):
            print(type(future.exception()).__name__)
    with concurrent.futures.ProcessPoolExecutor(1, CONTEXT) as executor:
        print(executor.submit(total, x).result() == 1 << 20, isthmus.distributed.stats()["waiting"] <= 1)


def message_lost() -> None:
    """A message that is read and never unpickled stays the sender's, which says so, and ends all the same."""
    ours, theirs = CONTEXT.Pipe()
    process = CONTEXT.Process(target=read_and_die, args=(theirs,))
    process.start()
    ours.send(torch.ones(1 << 20))
    process.join()
    stats = isthmus.distributed.stats()
    print(process.exitcode, stats["waiting"], stats["waiting_bytes"])


def echo(pipe: Any, rounds: int) -> None:
    """Sends each tensor back; at the end, whether this took descriptors or memory."""
    before = None
    for i in range(rounds):
        x = pipe.recv()
        pipe.send(x)
        if i == rounds // 10:
            before = descriptors(), resident_mib()
    assert before is not None
    pipe.send((descriptors() <= before[0], resident_mib() - before[1] < 4))


def many_exchanges() -> None:
    """1e5 of them, between two processes."""
    rounds = 50_000
    ours, theirs = CONTEXT.Pipe()
    process = CONTEXT.Process(target=echo, args=(theirs, rounds))
    process.start()
    x = torch.ones(20_000)
    before = None
    for i in range(rounds):
        ours.send(x)
        again = ours.recv()
        if i == rounds // 10:
            before = descriptors(), resident_mib()
    assert before is not None
    print(torch.equal(again, x), descriptors() <= before[0], resident_mib() - before[1] < 4, *ours.recv())
    process.join()


def many_held() -> None:
    """Far more tensors than there may be descriptors."""
    import resource

    resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128))
    requests, answers = CONTEXT.Queue(), CONTEXT.Queue()
    process = CONTEXT.Process(target=hold_many, args=(requests, answers))
    process.start()
    for i in range(3000):
        requests.put(torch.full((10_000,), float(i)))
    print(answers.get(timeout=60), descriptors() < 64)
    process.join(30)


def hold_many(requests: Any, answers: Any) -> None:
    held = [requests.get() for _ in range(3000)]
    answers.put((sum(float(x[5]) for x in held) == sum(range(3000)), descriptors() < 64))


def drops_what_it_inherited() -> None:
    """A forked child drops the last view that it has; the parent's stays as it is."""
    ours, theirs = CONTEXT.Pipe()
    ours.send(torch.ones(1 << 20))
    x = theirs.recv()
    child = os.fork()
    if child == 0:
        x[:] = 2
        del x
        gc.collect()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    for _ in range(10):
        ours.send(torch.zeros(1 << 20))
        theirs.recv()
    print(status, float(x.sum()) == 1 << 20)


def without_capabilities() -> None:
    """The receiver may do nothing that a plain user may not."""
    import ctypes

    ours, theirs = CONTEXT.Pipe()
    child = os.fork()
    if child == 0:
        libc = ctypes.CDLL(None, use_errno=True)
        header = (ctypes.c_uint32 * 2)(0x20080522, 0)
        nothing = (ctypes.c_uint32 * 6)()
        assert libc.capset(header, nothing) == 0
        x = theirs.recv()
        x += 1
        os._exit(0 if float(x.sum()) == 2 << 20 and isthmus.distributed.stats()["copied"] == 0 else 1)
    ours.send(torch.ones(1 << 20))
    print(os.waitpid(child, 0)[1])


def no_room() -> None:
    """/dev/shm holds 64 MiB, tensors are larger: they do not lie there."""
    ours, theirs = CONTEXT.Pipe()
    with open("/proc/mounts") as mounts:
        print(any("/dev/shm" in line and "size=65536k" in line for line in mounts))
    for _ in range(3):
        ours.send(torch.ones(64 << 20))
        print(float(theirs.recv().sum()) == 64 << 20)


def out_of_memory() -> None:
    """Where no segment can be had the tensor travels within the message."""
    import resource

    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))  # no segment is larger
    requests = CONTEXT.Queue()
    requests.put(torch.ones(1 << 20))
    print(float(requests.get().sum()) == 1 << 20, isthmus.distributed.stats()["inline"])


if __name__ == "__main__":
    torch.set_num_threads(1)
    # glibc raises the size from which it gives memory back at once, and then keeps some rounds' tensors in its heap.
    m_mmap_threshold = -3
    ctypes.CDLL(None).mallopt(m_mmap_threshold, 1 << 20)
    isthmus.distributed.enable("multiprocessing")
    globals()[sys.argv[1]]()
