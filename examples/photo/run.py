"""One photograph, three frameworks, one C++ extension that was compiled against none of them.

Usage:
    run.py [--output FILE.png] [--photo FILE] [--no-probe]

The extension works on the memory of a torch tensor, a NumPy array and a JAX array, and returns results in the caller's
framework. Without torch or JAX those parts are left out.
"""

from __future__ import annotations

import argparse
import importlib.util
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import photo
from PIL import Image, ImageDraw

import isthmus

Panel = tuple[str, np.ndarray]


def say(text: str = "") -> None:
    print(text, flush=True)


def load(path: Path | None) -> np.ndarray:
    """The photograph: rows, columns and 3 channels of uint8."""
    if path is not None:
        return np.array(Image.open(path).convert("RGB"))
    from sklearn.datasets import load_sample_image

    return load_sample_image("china.jpg").copy()


def has(module: str) -> bool:
    if importlib.util.find_spec(module) is not None:
        return True
    say(f"{module}: not installed, left out")
    return False


def timed(function: Callable[..., Any], *arguments: Any) -> tuple[Any, float]:
    start = time.perf_counter()
    result = function(*arguments)
    return result, 1e3 * (time.perf_counter() - start)


def check(truth: bool, what: str) -> None:
    if not truth:
        sys.exit(f"demo: {what} does not hold")


def tone_a_torch_tensor(picture: np.ndarray) -> Panel:
    import torch

    image = torch.from_numpy(picture.copy())
    address = image.data_ptr()
    _, milliseconds = timed(photo.sepia, image)
    changed = image.data_ptr() == address and not np.array_equal(image.numpy(), picture)
    check(changed, "the tensor's own memory was changed")
    means = photo.mean(image)
    check(type(means) is torch.Tensor, "a result for torch is a torch.Tensor")
    check(
        torch.allclose(means, image.float().mean(dim=(0, 1)), atol=0.01),
        "C++ and torch find the same mean",
    )
    say(
        f"torch:  photo.sepia(image) in place, {milliseconds:.1f} ms; photo.mean(image) -> {means}"
    )
    return "torch: sepia, in place", image.numpy()


def blur_a_numpy_slice(picture: np.ndarray) -> Panel:
    image = picture.copy()
    rows, columns = image.shape[:2]
    # A slice of a slice, mirrored: every stride but one is unusual, one is negative.
    window = image[rows // 4 : -rows // 4, columns // 4 : -columns // 4][:, ::-1]
    _, milliseconds = timed(photo.blur, window, 6)
    check(
        np.array_equal(image[0], picture[0]), "what lies around the slice is untouched"
    )
    check(not np.array_equal(image, picture), "the slice was changed")
    means = photo.mean(window)
    check(
        type(means) is np.ndarray
        and np.allclose(means, window.mean(axis=(0, 1)), atol=0.01),
        "NumPy's mean",
    )
    say(
        f"numpy:  photo.blur(image[...], 6) in place on a slice with strides {window.strides}, {milliseconds:.1f} ms"
    )
    return "NumPy: blur of a slice, in place", image


def sharpen_a_jax_array(picture: np.ndarray) -> Panel:
    import jax
    import jax.numpy as jnp

    image = jnp.array(picture)
    try:
        photo.sepia(image)
    except isthmus.Error as error:
        say(
            f"jax:    photo.sepia(image) is refused, for JAX arrays never change: {type(error).__name__}: {error}"
        )
    else:
        sys.exit("demo: an immutable JAX array was written to")
    sharper, milliseconds = timed(photo.sharpened, image, 1.5)
    check(isinstance(sharper, jax.Array), "a result for JAX is a jax.Array")
    check(np.array_equal(np.asarray(image), picture), "the JAX array is what it was")
    address = sharper.unsafe_buffer_pointer()
    check(
        isthmus.from_dlpack(sharper).data_ptr == address,
        "the result is shared, not copied",
    )
    say(
        f"jax:    photo.sharpened(image, 1.5) -> {type(sharper).__name__} over memory of C++, {milliseconds:.1f} ms"
    )
    return "JAX: sharpened, a new array", np.asarray(sharper)


def write_png(panels: list[Panel], path: Path) -> None:
    """The panels two to a row, each under its title."""
    rows, columns = panels[0][1].shape[:2]
    title, gap = 24, 8
    across = min(2, len(panels))
    down = -(-len(panels) // across)
    size = (across * (columns + gap) + gap, down * (rows + title + gap) + gap)
    sheet = Image.new("RGB", size, "white")
    draw = ImageDraw.Draw(sheet)
    for index, (text, pixels) in enumerate(panels):
        x = gap + index % across * (columns + gap)
        y = gap + index // across * (rows + title + gap)
        draw.text((x, y + 4), text, fill="black", font_size=16)
        sheet.paste(Image.fromarray(pixels), (x, y + title))
    path.parent.mkdir(parents=True, exist_ok=True)
    sheet.save(path)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("build/photo.png"),
        help="the picture, before and after",
    )
    parser.add_argument(
        "--photo", type=Path, help="another photograph than scikit-learn's"
    )
    parser.add_argument(
        "--no-probe", action="store_true", help="leave out the table of frameworks"
    )
    options = parser.parse_args()

    picture = load(options.photo)
    say(
        f"photograph: {picture.shape[1]} x {picture.shape[0]}, {picture.nbytes} bytes; mean {photo.mean(picture)}"
    )
    panels = [("before", picture.copy())]
    if has("torch"):
        panels.append(tone_a_torch_tensor(picture))
    panels.append(blur_a_numpy_slice(picture))
    if has("jax"):
        panels.append(sharpen_a_jax_array(picture))
    write_png(panels, options.output)
    say(f"picture: {options.output}")
    if options.no_probe:
        return 0
    say()
    return subprocess.run([sys.executable, "-m", "isthmus", "probe"]).returncode


if __name__ == "__main__":
    sys.exit(main())
