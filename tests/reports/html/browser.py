"""A Chromium without a window, driven through the DevTools protocol: load a page, press keys, watch the network."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")

_PATIENCE = 60.0
_KEYS = {
    "Tab": ("Tab", 9),
    "Enter": ("Enter", 13),
    "Escape": ("Escape", 27),
    "ArrowUp": ("ArrowUp", 38),
    "ArrowDown": ("ArrowDown", 40),
    "ArrowLeft": ("ArrowLeft", 37),
    "ArrowRight": ("ArrowRight", 39),
}
"""Codes of keys that write nothing."""


class Tab:
    """One page in a browser.

    Attributes:
        requests: Addresses that the page has requested, other than its own and data within it.
        messages: What the page and the browser have logged about it: errors, warnings and blocked requests.
    """

    def __init__(self, into: int, out: int) -> None:
        self._into, self._out, self._rest, self._count = into, out, b"", 0
        self._session: str | None = None
        self._loaded = False
        self._own = ""
        self.requests: list[str] = []
        self.messages: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **arguments: Any) -> dict[str, Any]:
        """Send a command of the protocol, and return its result."""
        self._count += 1
        message = {"id": self._count, "method": method, "params": arguments}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._into, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive(time.monotonic() + _PATIENCE)
            if answer.get("id") == self._count:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return dict(answer["result"])

    def open(self, page: Path, fragment: str = "") -> None:
        """Load a page from disk, and wait until it is loaded, with its token atlas if it has one."""
        self._own, self._loaded = page.absolute().as_uri(), False
        self.call("Page.navigate", url=self._own + fragment)
        deadline = time.monotonic() + _PATIENCE
        while not self._loaded:
            self._receive(deadline)
        if self.evaluate("document.getElementById('atlas-data')?.textContent.length > 0"):
            self.wait_for("document.documentElement.dataset.atlas === 'ready'")

    def evaluate(self, code: str) -> Any:
        """Return the value of an expression in the page; promises are awaited."""
        answer = self.call("Runtime.evaluate", expression=code, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait_for(self, code: str) -> None:
        """Wait until an expression is true in the page."""
        deadline = time.monotonic() + _PATIENCE
        while not self.evaluate(code):
            assert time.monotonic() < deadline, f"{code} did not become true"
            time.sleep(0.05)

    def press(self, *keys: str) -> None:
        """Press keys one after the other: `Tab`, `ArrowDown` and the like, or a character."""
        for key in keys:
            if key in _KEYS:
                code, number = _KEYS[key]
                pressed = {"key": key, "code": code, "windowsVirtualKeyCode": number}
                self.call("Input.dispatchKeyEvent", type="keyDown", **pressed)
                self.call("Input.dispatchKeyEvent", type="keyUp", **pressed)
            else:
                self.call("Input.dispatchKeyEvent", type="keyDown", key=key, text=key)
                self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def show_as(self, *, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        """Change the size of the page, and the colours that the user prefers."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call("Emulation.setScrollbarsHidden", hidden=True)

    def picture(self, selector: str = "html") -> bytes:
        """Return an element as it is drawn, in PNG."""
        box = self.evaluate(
            f"(() => {{ const box = document.querySelector({json.dumps(selector)}).getBoundingClientRect();"
            "return [box.x + scrollX, box.y + scrollY, box.width, box.height]; })()"
        )
        clip = {**dict(zip(("x", "y", "width", "height"), box, strict=True)), "scale": 1}
        return base64.b64decode(self.call("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)["data"])

    def _receive(self, deadline: float) -> dict[str, Any]:
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._out], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, "the browser does not answer"
            received = os.read(self._out, 1 << 16)
            assert received, "the browser has ended"
            self._rest += received
        message, _, self._rest = self._rest.partition(b"\0")
        event: dict[str, Any] = json.loads(message)
        about = event.get("params", {})
        match event.get("method"):
            case "Page.loadEventFired":
                self._loaded = True
            case "Network.requestWillBeSent":
                address = about["request"]["url"]
                if address.partition("#")[0] != self._own and not address.startswith(("data:", "blob:", "about:")):
                    self.requests.append(address)
            case "Log.entryAdded":
                self.messages.append(about["entry"]["text"])
            case "Runtime.consoleAPICalled":
                self.messages.append(" ".join(str(each.get("value")) for each in about["args"]))
            case "Runtime.exceptionThrown":
                self.messages.append(str(about["exceptionDetails"]))
        return event


@contextmanager
def browser() -> Iterator[Tab]:
    """Start a browser that can reach nothing but files, and yield its page."""
    to_read, into = os.pipe()
    out, to_write = os.pipe()
    command = [str(CHROMIUM), "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
    command += ["--no-first-run", "--host-resolver-rules=MAP * ~NOTFOUND", "--remote-debugging-pipe"]
    # The browser reads commands from descriptor 3 and writes to 4; the numbers of ours may be the same.
    redirect = f'exec 8<&{to_read} 9>&{to_write}; exec 3<&8 4>&9 8<&- 9>&-; exec "$@"'
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        words = ["bash", "-c", redirect, "bash", *command, f"--user-data-dir={profile}"]
        started = subprocess.Popen(words, pass_fds=(to_read, to_write), stderr=subprocess.DEVNULL)
        os.close(to_read)
        os.close(to_write)
        try:
            yield Tab(into, out)
        finally:
            started.terminate()
            started.wait()
            os.close(into)
            os.close(out)
