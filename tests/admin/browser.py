"""A headless Chromium that a test drives by the DevTools protocol, over a pipe: no package is needed for it."""

import base64
import itertools
import json
import os
import select
import shutil
import subprocess
import time
import warnings
from pathlib import Path
from typing import Any

import pytest

from tests.live import WAIT_SECONDS

NAMES = ("chromium", "chromium-browser", "google-chrome")
BROWSER = next((path for name in NAMES if (path := shutil.which(name))), None)


def need_browser() -> str:
    """Return the path of the browser, or skip the test, loudly."""
    if BROWSER is None:
        warnings.warn("NO CHROMIUM: the tests of the page are skipped. apt-get install chromium", stacklevel=2)
        pytest.skip("no Chromium on this machine")
    return BROWSER


class Browser:
    """One page in a browser of its own."""

    def __init__(self, folder: Path, *, width: int = 1200, height: int = 900, is_dark: bool = False) -> None:
        ours, theirs = os.pipe(), os.pipe()  # to the browser, which reads descriptor 3; and from it, which writes 4
        command = [
            need_browser(), "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
            "--remote-debugging-pipe", "--hide-scrollbars", f"--user-data-dir={folder}/profile", "about:blank",
        ]  # fmt: skip
        script = f'exec "$0" "$@" 3<&{ours[0]} 4>&{theirs[1]} {ours[0]}<&- {theirs[1]}>&-'
        with (folder / "browser.log").open("ab") as log:
            self._process = subprocess.Popen(
                ["bash", "-c", script, *command], pass_fds=(ours[0], theirs[1]), stdout=log, stderr=log
            )
        os.close(ours[0])
        os.close(theirs[1])
        self._write, self._read = ours[1], theirs[0]
        self._numbers = itertools.count(1)
        self._left = b""
        self.errors: list[str] = []
        """What the page has thrown, or written to the console as an error."""
        target = self._call("Target.createTarget", {"url": "about:blank"})["targetId"]
        self._session = self._call("Target.attachToTarget", {"targetId": target, "flatten": True})["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.requested: list[str] = []
        """Every address that the page has asked for."""
        self.resize(width, height)
        self.prefer("dark" if is_dark else "light")

    def __enter__(self) -> "Browser":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait(WAIT_SECONDS)
        os.close(self._write)
        os.close(self._read)

    def call(self, method: str, **parameters: Any) -> Any:
        """Call a method of the DevTools protocol for the page."""
        return self._call(method, parameters, self._session)

    def open(self, address: str) -> None:
        self.call("Page.navigate", url=address)

    def resize(self, width: int, height: int) -> None:
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def prefer(self, scheme: str) -> None:
        """Have the page drawn light or dark."""
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def eval(self, expression: str) -> Any:
        """Return the value of an expression in the page; a promise is awaited."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def wait(self, expression: str) -> None:
        """Wait until an expression is true in the page."""
        deadline = time.monotonic() + WAIT_SECONDS
        while not self.eval(f"(() => {{ try {{ return !!({expression}) }} catch {{ return false }} }})()"):
            assert time.monotonic() < deadline, f"never true: {expression}\n{self.text()}\n{self.errors}"
            time.sleep(0.05)

    def text(self, selector: str = "body") -> str:
        """The text that is shown."""
        return str(self.eval(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''"))

    def click(self, selector: str) -> None:
        self.eval(f"document.querySelector({json.dumps(selector)}).click()")

    def press(self, key: str) -> None:
        """Press a key and let go of it."""
        text = {"text": key} if len(key) == 1 else {"text": "\r"} if key == "Enter" else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def picture(self, file: Path) -> None:
        """Keep a picture of what is shown."""
        file.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def _call(self, method: str, parameters: dict[str, Any], session: str | None = None) -> Any:
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters} | ({"sessionId": session} if session else {})
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            found = self._receive()
            if found.get("id") == number:
                assert "error" not in found, f"{method}: {found['error']}"
                return found["result"]
            self._note(found)

    def _note(self, event: dict[str, Any]) -> None:
        what, facts = event.get("method"), event.get("params", {})
        if what == "Runtime.exceptionThrown":
            details = facts["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description") or details["text"])
        elif what == "Log.entryAdded" and facts["entry"]["level"] == "error":
            self.errors.append(facts["entry"]["text"])
        elif what == "Network.requestWillBeSent":
            self.requested.append(facts["request"]["url"])

    def _receive(self) -> dict[str, Any]:
        deadline = time.monotonic() + WAIT_SECONDS
        while b"\0" not in self._left:
            ready, _, _ = select.select([self._read], [], [], max(deadline - time.monotonic(), 0))
            assert ready, "the browser does not answer"
            chunk = os.read(self._read, 1 << 16)
            assert chunk, f"the browser has ended with {self._process.poll()}"
            self._left += chunk
        message, _, self._left = self._left.partition(b"\0")
        found: dict[str, Any] = json.loads(message)
        return found
