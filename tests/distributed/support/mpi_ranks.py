"""Two ranks of MPI that send each other every kind of tensor; run by mpiexec,
ends with an error where something differs."""

from __future__ import annotations

import sys
from typing import Any

import torch
from mpi4py import MPI
from mpi4py.util import pkl5
from tensors import KINDS, LARGE, copied, facts, private_kib

import isthmus


def exchange(comm: Any) -> None:
    rank = comm.Get_rank()
    for kind in KINDS:
        for rows in (1, LARGE):
            x = KINDS[kind](rows)
            before = copied()
            if rank == 0:
                comm.send(x, dest=1)
                again = comm.recv(source=1)
            else:
                again = comm.recv(source=0)
                comm.send(again, dest=0)
            assert facts(again) == facts(x), (kind, rows, facts(again), facts(x))
            # XLA wants 64-byte alignment, which a received message does not have.
            assert copied() == before or kind.startswith("jax"), kind
    base = torch.arange(100_000.0)
    a, b, c = comm.bcast((base[:10], base, base) if rank == 0 else None, root=0)
    assert b is c
    b[0] = 7
    assert a[0] == 7
    assert facts(comm.allgather(KINDS["torch bfloat16"](LARGE))[1 - rank]) == facts(KINDS["torch bfloat16"](LARGE))


def memory(comm: Any) -> None:
    """The receiver has the elements once, and the sender no second time."""
    rank, mib = comm.Get_rank(), 64
    x = torch.ones(mib << 20, dtype=torch.uint8).view(torch.bfloat16)
    comm.barrier()
    before = private_kib()
    if rank == 0:
        comm.send(x, dest=1)
        again = None
    else:
        again = comm.recv(source=0)
    grown = (private_kib() - before) >> 10
    comm.barrier()
    assert grown < (8 if rank == 0 else mib + 8), (rank, grown)
    assert again is None or again.dtype == torch.bfloat16


def main() -> None:
    isthmus.distributed.enable("mpi4py")
    exchange(MPI.COMM_WORLD)
    out_of_band = pkl5.Intracomm(MPI.COMM_WORLD)
    exchange(out_of_band)
    memory(out_of_band)
    isthmus.distributed.disable("mpi4py")
    # One write: print() makes two without a buffer, and the other rank's comes between them.
    sys.stdout.write("good\n")
    sys.stdout.flush()


if __name__ == "__main__":
    try:
        main()
    except BaseException:
        sys.excepthook(*sys.exc_info())
        MPI.COMM_WORLD.Abort(1)
