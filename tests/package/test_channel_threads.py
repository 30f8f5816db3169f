"""A Channel that several threads, tasks and processes use: each tree arrives whole, and timeouts travel."""

from __future__ import annotations

import asyncio
import multiprocessing
import sys
import threading
from typing import Any

import numpy as np
import processes
import pytest

from isthmus import shared

if sys.platform != "linux":
    pytest.skip("Linux", allow_module_level=True)

TREES, PARTS, SENDERS = 30, 40, 3


@pytest.fixture(autouse=True)
def limited():
    with processes.waiting_at_most(60):
        yield


def tree_of(channel: shared.Channel, tag: int) -> dict[str, Any]:
    """Tensors whose memory is shared already: each is a message of its own, more than a socket takes at once."""
    tree: dict[str, Any] = {"tag": tag}
    for i in range(PARTS):
        tree[str(i)] = channel.empty((4,), "int64")
        np.asarray(tree[str(i)])[:] = tag
    return tree


def is_whole(tree: dict[str, Any]) -> bool:
    return {int(np.asarray(part)[0]) for name, part in tree.items() if name != "tag"} == {tree["tag"]}


def test_trees_of_several_tasks_are_not_mixed() -> None:
    async def send(channel: shared.Channel, tag: int) -> None:
        for _ in range(TREES):
            await channel.asend(tree_of(channel, tag))

    async def main() -> list[bool]:
        ours, theirs = shared.Channel.pair()
        with ours, theirs:
            tasks = [asyncio.ensure_future(send(ours, tag)) for tag in range(SENDERS)]
            whole = []
            for _ in range(TREES * SENDERS):
                await asyncio.sleep(0.001)  # the socket is full by now
                whole.append(is_whole(await theirs.areceive()))
            await asyncio.gather(*tasks)
        return whole

    assert all(asyncio.run(main()))


@pytest.mark.parametrize("readers", [1, 2])
def test_trees_of_several_threads_are_not_mixed(readers: int) -> None:
    ours, theirs = shared.Channel.pair()
    whole: list[bool] = []

    def send(tag: int) -> None:
        for _ in range(TREES):
            ours.send(tree_of(ours, tag))

    def receive() -> None:
        whole.extend(is_whole(tree) for tree in theirs)

    with ours, theirs:
        theirs.settimeout(20)
        receiving = [threading.Thread(target=receive) for _ in range(readers)]
        sending = [threading.Thread(target=send, args=(tag,)) for tag in range(SENDERS)]
        for thread in (*receiving, *sending):
            thread.start()
        for thread in sending:
            thread.join()
        ours.close()
        for thread in receiving:
            thread.join()
    assert whole == [True] * (TREES * SENDERS)


def test_a_thread_and_a_task_take_turns() -> None:
    ours, theirs = shared.Channel.pair()

    def send() -> None:
        for _ in range(TREES):
            ours.send(tree_of(ours, 1))

    async def main() -> list[bool]:
        thread = threading.Thread(target=send)
        thread.start()

        async def also() -> None:
            for _ in range(TREES):
                await ours.asend(tree_of(ours, 2))

        task = asyncio.ensure_future(also())
        whole = [is_whole(await theirs.areceive()) for _ in range(2 * TREES)]
        await task
        thread.join()
        return whole

    with ours, theirs:
        assert all(asyncio.run(main()))


def test_the_wait_for_another_thread_has_the_timeout_of_the_channel() -> None:
    ours, theirs = shared.Channel.pair()
    with ours, theirs:
        thread = threading.Thread(target=theirs.receive)
        thread.start()
        while not theirs._locks["reader"].locked():
            pass
        theirs.settimeout(0.05)
        with pytest.raises(TimeoutError, match="another thread"):
            theirs.receive()
        theirs.settimeout(0)
        with pytest.raises(BlockingIOError, match="another thread"):
            theirs.receive()
        ours.send(np.ones(3))
        thread.join()


def wait(channel: shared.Channel, answers: Any) -> None:
    try:
        channel.receive()
    except TimeoutError as error:
        answers.send(str(error))


@pytest.mark.parametrize("start", ["fork", "forkserver", "spawn"])
def test_a_timeout_travels_with_the_channel(start: str) -> None:
    context: Any = multiprocessing.get_context(start)
    ours, theirs = shared.Channel.pair()
    here, there = context.Pipe(duplex=False)
    theirs.settimeout(0.1)
    process = context.Process(target=wait, args=(theirs, there))
    process.start()
    try:
        assert here.poll(40), "it waits for ever"
        assert "100 ms" in here.recv()
    finally:
        process.kill()
        process.join()
        ours.close()
        theirs.close()
