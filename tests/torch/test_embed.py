"""examples/embed, built as a user builds it and run on a real pretrained network."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import embedding
import pytest

pytest.importorskip("torch", exc_type=ImportError)
pytest.importorskip("isthmus")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The TorchScript file that the package silero-vad ships; its own requirements are not needed for it."""
    found = importlib.util.find_spec("silero_vad")
    folder = Path(found.origin).parent if found and found.origin else None
    if folder is None:
        target = tmp_path_factory.mktemp("silero")
        command = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-deps",
            "--target",
            str(target),
            "silero-vad",
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        if done.returncode:
            pytest.skip(f"the package silero-vad cannot be installed: {done.stderr.strip().splitlines()[-1:]}")
        folder = target / "silero_vad"
    return folder / "data" / "silero_vad.jit"


@pytest.fixture(scope="module")
def program(build_example: Callable[..., Path]) -> Path:
    return build_example("embed", missing={"Development.Embed": "this Python has no library to embed"}) / "embed"


def run(program: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [program, *map(str, arguments)], env=embedding.environment(), capture_output=True, text=True, timeout=120
    )


def test_the_network_hears_the_voice(program: Path, model: Path) -> None:
    done = run(program, model)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    heard, after, released = done.stdout.splitlines()
    words = heard.split()
    assert words[:2] == ["voice", "from"]
    assert 0.9 < float(words[2]) < 1.3
    assert 2.7 < float(words[5]) < 3.3
    assert after.startswith("after Python's end: 125 probabilities")
    assert released == "the audio went with the last handle: yes"


def test_a_missing_model_is_said(program: Path, tmp_path: Path) -> None:
    done = run(program, tmp_path / "nothing.jit")
    assert done.returncode == 1
    assert "the model cannot be loaded" in done.stderr
