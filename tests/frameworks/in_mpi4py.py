"""mpi4py, which takes any tensor for a message buffer."""

import mpi4py
import numpy as np
from checks import DTYPES, Skip, made

import isthmus_test_ext as ext

mpi4py.rc.initialize = False
try:
    from mpi4py import MPI
except (ImportError, RuntimeError) as error:
    raise ImportError(f"no MPI library: {error}") from None

VERSION = mpi4py.__version__


def check_consumer_buffer():
    t = made("uint8", (8,))
    b = MPI.buffer(t)
    assert (b.address, b.nbytes, b.readonly) == (t.data_ptr, 8, False)


def check_consumer_read_only():
    assert MPI.buffer(made("uint8", (8,), read_only=True)).readonly


def check_consumer_every_dtype():
    for dtype in DTYPES:
        t = made(dtype, (4,))
        assert MPI.buffer(memoryview(t)).nbytes == t.nbytes


def check_consumer_message_to_itself():
    try:
        MPI.Init()
    except Exception as error:
        raise Skip(f"MPI does not start here: {error}") from None
    source, target = made(), ext.pages([2, 3])
    MPI.COMM_SELF.Sendrecv(source, 0, recvbuf=target, source=0)
    assert np.from_dlpack(target).tolist() == [[0, 1, 2], [3, 4, 5]]
    MPI.Finalize()
