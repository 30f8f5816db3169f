"""Java's view of a tensor's elements keeps the tensor."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
EXAMPLE = REPOSITORY / "examples" / "java"
SOURCE = Path(__file__).resolve().parent / "java" / "Keeps.java"


def run(*command: object) -> str:
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_a_buffer_keeps_its_tensor(libisthmus: Path, needs, unsanitized, tmp_path: Path) -> None:
    needs("javac", "java", "cc")
    jdk = Path(os.environ.get("JAVA_HOME") or Path(os.path.realpath(str(shutil.which("javac")))).parents[1])
    sources = sorted(EXAMPLE.glob("src/isthmus/*.java"))
    run(jdk / "bin" / "javac", "--release", "17", "-d", tmp_path / "classes", *sources, SOURCE)
    library = tmp_path / "libisthmus_java.so"
    includes = [f"-I{REPOSITORY / 'include'}", f"-I{jdk / 'include'}", f"-I{jdk / 'include' / 'linux'}"]
    links = [f"-L{libisthmus.parent}", "-listhmus", f"-Wl,-rpath,{libisthmus.parent}"]
    source = EXAMPLE / "native" / "tensor.c"
    run("cc", "-std=c11", "-D_GNU_SOURCE", "-O1", "-shared", "-fPIC", *includes, source, "-o", library, *links)
    java = jdk / "bin" / "java"
    assert run(java, f"-Disthmus.jni={library}", "-Xcheck:jni", "-cp", tmp_path / "classes", "Keeps") == "ok\n"
