"""examples/shared_weights, followed to its end: the part with Ray, too."""

from __future__ import annotations

from pathlib import Path

import processes
import pytest
import readmes

pytest.importorskip("isthmus", reason="isthmus is not installed")
pytest.importorskip("safetensors", reason="safetensors is not installed")
pytest.importorskip("ray", reason="Ray is not installed: make test-distributed")


def test_shared_weights(tmp_path: Path) -> None:
    with processes.waiting_at_most(300):  # two engines start their workers, who import torch
        readmes.follow(Path(__file__).resolve().parents[2] / "examples" / "shared_weights", tmp_path)
