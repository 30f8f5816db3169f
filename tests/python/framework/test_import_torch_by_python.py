"""PyTorch tensors whose questions Python answers, badly; test_import_torch_older.py runs it without libtorch's stable
shims."""

from __future__ import annotations

import os

import pytest

torch = pytest.importorskip("torch")

if os.environ.get("ISTHMUS_NO_TORCH_SHIMS", "0") == "0":
    pytest.skip("libtorch itself is asked", allow_module_level=True)


def test_a_detach_that_fails(take, refused) -> None:
    class Fails(torch.Tensor):
        def detach(self):
            raise OSError("the disk is gone")

    x = torch.ones(4, 6).as_subclass(Fails).requires_grad_()
    error = refused("producer_failed", BufferError, take, x, allow_grad=True)
    assert isinstance(error.__cause__, OSError)
    assert "Fails.detach()" in str(error)


def test_a_write_that_autograd_cannot_be_told_of(take, refused, monkeypatch) -> None:
    def increment_version(tensor: object) -> None:
        raise RuntimeError("not this one")

    monkeypatch.setattr(torch.autograd.graph, "increment_version", increment_version)
    error = refused("requires_grad", BufferError, take, torch.ones(4, 6), require_writable=True)
    assert "not this one" in str(error)
