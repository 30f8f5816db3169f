"""A pytest plug-in: the collector runs at every allocation, in this process and in the ones that tests start."""

from __future__ import annotations

import gc

gc.set_threshold(1)
