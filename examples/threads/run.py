"""Blocks of a signal go to threads of C++, and each thread calls Python with what it found."""

import threading

import numpy as np
import torch
from pool import Pool

signal = np.random.default_rng(0).normal(size=(16, 256)).astype(np.float32)
found: dict[int, np.ndarray] = {}
threads = set()


def done(number, power):
    found[number] = np.asarray(power)  # memory of C++, without a copy
    threads.add(threading.get_ident())


with Pool(threads=3, done=done) as pool:
    for number, block in enumerate(signal):
        pool.submit(number, block if number % 2 else torch.from_numpy(block))
expected = np.abs(np.fft.rfft(signal)) ** 2
print(
    "blocks:",
    len(found),
    "all as NumPy's:",
    all(np.allclose(found[i], expected[i], rtol=1e-3) for i in found),
)
print("called by other threads:", threading.get_ident() not in threads)


def fails(number, power):
    raise ValueError(f"block {number} is not wanted")


pool = Pool(threads=1, done=fails)
pool.submit(7, signal[7])
try:
    pool.close()
except ValueError as error:
    print("raised by close():", error)

pool = Pool(
    threads=2,
    done=lambda number, power: print("after the last line:", len(power), "frequencies"),
)
pool.submit(0, signal[0])  # nobody closes this one: the end of the interpreter does
