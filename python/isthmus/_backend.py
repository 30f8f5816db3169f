"""The functions of Isthmus as a table of C functions: what modules of the stable ABI find when they are imported."""

from ._isthmus import _backend_v1 as v1

__all__ = ["v1"]
