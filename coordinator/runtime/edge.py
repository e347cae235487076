"""The one place where a failure of our own ends: the edge around every step.

A step decides, encodes, and only then applies, so one that fails has changed nothing. The edge logs the failure once,
with its traceback, counts it by kind, and lets the caller go on: a request is answered UNKNOWN_SERVER_ERROR, a timer
is gone. `StorageError` passes: after a failed append or sync nobody knows what the log holds, and the process ends. So
does the failed import of a module of ours: what is installed is not what runs.
"""

import logging
from collections import Counter
from collections.abc import Callable, Generator
from typing import Any, Final, TypeVar

from msgspec import Struct

from coordinator import own_modules
from coordinator.core.response_budget import ResponseTooLarge
from protocol.errors import ErrorCode, UnreadableValue
from storage.files import StorageError

log = logging.getLogger("muster.edge")

T = TypeVar("T")


class Failure(Struct, frozen=True):
    """The result of a step that failed, and the error that tells a client of it."""

    code: ErrorCode = ErrorCode.UNKNOWN_SERVER_ERROR


FAILED: Final = Failure()
TOO_LARGE: Final = Failure(ErrorCode.POLICY_VIOLATION)
"""The result of a request whose response would take more memory than it may, which is no failure of ours."""


class Edge:
    """Runs steps, and counts those that failed: `failures`, by kind."""

    def __init__(self) -> None:
        self.failures: Counter[str] = Counter()

    def attempt(self, kind: str, step: Callable[..., T], *args: Any) -> T | Failure:
        """Return the result of the step, or a failure. Raises StorageError, UnreadableValue, ImportError for a
        module of ours, and nothing else."""
        try:
            return step(*args)
        except Exception as error:
            return self._take(kind, error)

    def attempt_steps(self, kind: str, steps: Generator[None, None, T]) -> Generator[None, None, T | Failure]:
        """Return the same for work that is itself done in steps."""
        try:
            return (yield from steps)
        except Exception as error:
            return self._take(kind, error)

    def decide(
        self, kind: str, handle: Callable[..., T], engine: Any, request: Any, call: Any, where: Any
    ) -> T | Failure:
        """Return the same for the handler of a request. The arguments are spelled out: `*args` costs 5 % of a
        heartbeat."""
        try:
            return handle(engine, request, call, where)
        except Exception as error:
            return self._take(kind, error)

    def _take(self, kind: str, error: Exception) -> Failure:
        """Return what a step that raised this has come to. Raises the error again if the edge does not stop it."""
        if isinstance(error, StorageError | UnreadableValue) or own_modules.is_missing(error):
            raise error
        if isinstance(error, ResponseTooLarge):
            log.warning("request refused: its response is too large", extra={"kind": kind})
            return TOO_LARGE
        self.report(kind, error)
        return FAILED

    def report(self, kind: str, error: Exception) -> None:
        """Log and count a failure of our own."""
        log.error("internal error: %s", kind, exc_info=error, extra={"kind": kind})
        self.failures[kind] += 1
