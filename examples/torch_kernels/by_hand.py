"""What torch's C++ interface does not say of by_hand.cpp: a number of rows that only the call knows."""

from pathlib import Path

import torch

torch.ops.load_library(Path(__file__).parent / "build" / "libby_hand.so")


@torch.library.register_fake("by_hand::nms")
def nms(boxes: torch.Tensor, scores: torch.Tensor, threshold: float) -> torch.Tensor:
    count = torch.library.get_ctx().new_dynamic_size()
    torch._check(count <= boxes.shape[0])
    return boxes.new_empty(count, dtype=torch.int64)
