"""Chromium without a window, over its DevTools protocol on two pipes: no package is needed."""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


def find() -> str | None:
    """The program: what ISTHMUS_CHROMIUM names, or the first of NAMES on the PATH."""
    named = os.environ.get("ISTHMUS_CHROMIUM")
    return named or next((path for name in NAMES if (path := shutil.which(name))), None)


class Browser:
    """One tab. An error of the page's script or of the protocol is a RuntimeError; no answer is a TimeoutError."""

    def __init__(self, program: str, profile: str) -> None:
        to_read, self.write_end = os.pipe()
        self.read_end, to_write = os.pipe()
        # The browser reads its descriptor 3 and writes to 4.
        command = f'exec "$0" "$@" 3<&{to_read} 4>&{to_write}'
        options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe"]
        options += ["--no-first-run", "--disable-dev-shm-usage", f"--user-data-dir={profile}", "about:blank"]
        self.process = subprocess.Popen(
            ["bash", "-c", command, program, *options],
            pass_fds=(to_read, to_write),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_read)
        os.close(to_write)
        self.numbers = itertools.count(1)
        self.buffer = b""
        self.session: str | None = None
        self.events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.call("Page.enable")

    def message(self, seconds: float) -> dict[str, Any]:
        end = time.monotonic() + seconds
        while b"\0" not in self.buffer:
            if not select.select([self.read_end], [], [], max(0.0, end - time.monotonic()))[0]:
                raise TimeoutError(f"no answer of the browser in {seconds:.0f} s")
            piece = os.read(self.read_end, 1 << 20)
            if not piece:
                raise RuntimeError(f"the browser has ended ({self.process.wait()})")
            self.buffer += piece
        text, _, self.buffer = self.buffer.partition(b"\0")
        found: dict[str, Any] = json.loads(text)
        return found

    def call(self, method: str, seconds: float = 60, **parameters: Any) -> dict[str, Any]:
        number = next(self.numbers)
        request = {"id": number, "method": method, "params": parameters}
        if self.session is not None:
            request["sessionId"] = self.session
        os.write(self.write_end, json.dumps(request).encode() + b"\0")
        while True:
            answer = self.message(seconds)
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                result: dict[str, Any] = answer["result"]
                return result
            self.events.append(answer)

    def open(self, page: Path, width: int, height: int = 900) -> None:
        """Shows a file in a window of that width, and waits until it has loaded."""
        self.resize(width, height)
        self.events.clear()
        self.call("Page.navigate", url=page.as_uri())
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self.message(60))

    def resize(self, width: int, height: int = 900) -> None:
        """The window of a phone below 600 pixels, else that of a desktop."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
                  mobile=width < 600)  # fmt: skip

    def prefer(self, scheme: str) -> None:
        """'light' or 'dark', as the system of a reader prefers it."""
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def evaluate(self, script: str) -> Any:
        """The value of an expression of JavaScript on the page."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(str(answer["exceptionDetails"]))
        return answer["result"].get("value")

    def screenshot(self, file: Path) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))


@contextlib.contextmanager
def opened(program: str) -> Iterator[Browser]:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = Browser(program, profile)
        try:
            yield browser
        finally:
            browser.process.terminate()
            browser.process.wait()
            os.close(browser.read_end)
            os.close(browser.write_end)
