"""One line a check, and whether any of them failed."""

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator


class Report:
    def __init__(self) -> None:
        self.passed = 0
        self.failed: list[str] = []

    @contextlib.contextmanager
    def check(self, what: str) -> Iterator[None]:
        """Run what is inside; an assertion or a program that fails is a line, and the next check goes on."""
        since = time.monotonic()
        try:
            yield
        except (AssertionError, subprocess.SubprocessError, OSError, LookupError, ValueError) as error:
            self.failed.append(what)
            self._line("FAIL", what, since, f": {_told(error)}")
        else:
            self.passed += 1
            self._line("ok  ", what, since, "")

    def _line(self, verdict: str, what: str, since: float, why: str) -> None:
        print(f"{verdict} {what} ({time.monotonic() - since:.1f} s){why}", flush=True)

    def end(self) -> int:
        """The exit code, with a last line for people."""
        print(f"{self.passed} passed, {len(self.failed)} failed", flush=True)
        for one in self.failed:
            print(f"failed: {one}", file=sys.stderr)
        return 1 if self.failed else 0


def _told(error: BaseException) -> str:
    said = getattr(error, "stderr", None) or b""
    end = said.decode(errors="replace").strip().splitlines()[-3:] if isinstance(said, bytes) else []
    return " | ".join([f"{type(error).__name__}: {error}".splitlines()[0][:400], *end])
