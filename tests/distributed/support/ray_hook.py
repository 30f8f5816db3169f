"""What each Ray worker runs before anything else."""

from __future__ import annotations

import os

import isthmus


def enable() -> None:
    isthmus.distributed.enable("ray", os.environ.get("TEST_POLICY", "copy_on_write"))
