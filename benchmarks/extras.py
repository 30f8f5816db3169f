# SPDX-License-Identifier: Apache-2.0
"""What is measured beside the timed rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import build
import counts
import footprint
import growth
import many_functions
import memory
import operators
import published
import threads
from peers import Peers

#: The groups of counted().
COUNTED = ("allocations", "instructions", "footprint")


def clocked(
    peers: Peers, rounds: int, timed: Callable[..., list[Any]], say: Callable[[str], None]
) -> list[dict[str, Any]]:
    """Threads, the measurements that others have published, memory, and growth."""
    results = threads.all_results(peers, rounds, say)
    results += published.all_results(peers, rounds, timed, say)
    results += memory.all_results(peers, say)
    try:
        results += growth.all_results(rounds, say)
    except build.Unavailable as why:
        say(f"no rows of growth: {why}")
    return results


def counted(peers: Peers, quick: bool, say: Callable[[str], None]) -> list[dict[str, Any]]:
    """Allocations, instructions, sizes and compile times, which a busy machine changes little."""
    results: list[dict[str, Any]] = counts.all_results(peers.version, say, with_callgrind=not quick)
    if not quick:
        results += footprint.all_results(peers.version, say)
        results += operators.compile_times(peers.version, say)
        results += many_functions.all_results(peers.version, say)
    return results
