"""Sums over ragged arrays: the rows of segments of different lengths stand one behind the other in one array."""

from ._segments import segment_sum, starts

__all__ = ["segment_sum", "starts"]
