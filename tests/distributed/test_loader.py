"""torch's DataLoader with isthmus.distributed.collate: the same batches, in memory that is handed over."""

from __future__ import annotations

import pytest

isthmus = pytest.importorskip("isthmus", reason="isthmus is not installed")
torch = pytest.importorskip("torch", reason="PyTorch is not installed")

import workers  # noqa: E402  # which needs these


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_the_same_batches_as_torch_makes(start: str):
    isthmus.distributed.enable("multiprocessing")
    options = {"batch_size": 16, "num_workers": 2, "multiprocessing_context": start, "worker_init_fn": workers.init}
    before = isthmus.distributed.stats()
    batches = list(torch.utils.data.DataLoader(workers.Samples(), collate_fn=isthmus.distributed.collate, **options))
    after = isthmus.distributed.stats()
    assert len(batches) == 4
    for i, batch in enumerate(batches):
        assert torch.equal(
            batch["image"], torch.arange(16.0 * i, 16.0 * (i + 1))[:, None, None, None].expand(16, 3, 64, 64)
        )
        assert batch["label"].tolist() == batch["small"][:, 0].tolist() == list(range(16 * i, 16 * (i + 1)))
        assert batch["name"] == [str(n) for n in range(16 * i, 16 * (i + 1))]
        batch["image"][:] = 0
    assert after["copied"] == before["copied"]
    assert after["copy_on_write"] == before["copy_on_write"] + 4


def test_without_a_worker_nothing_is_kept_to_be_handed_over():
    from isthmus.distributed import transit

    assert isthmus.distributed.collate([torch.ones(100_000)] * 4).shape == (4, 100_000)
    assert not transit._given
