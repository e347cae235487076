"""The server's log: key=value or JSON, one line an entry, on standard error. Not a subcommand.

The loop never waits for whoever reads standard error. It hands lines to a queue, and a thread writes them:

    loop ─► format ─► repeated within 10 s? then count ─► bounded queue ─► thread ─► standard error

Lines that find the queue full are dropped; how many were is the next line that is written. A warning that
repeats another one within ten seconds is not written; at their end one line says how often it was repeated.
"""

import atexit
import logging
import os
import select
import sys
import threading
import time
from collections import deque
from copy import copy
from typing import Any, Final

from coordinator.control.printable import make_printable

QUEUE_BYTES_MAX: Final = 4 * 1_048_576
REPEATS_SECONDS: Final = 10.0
REPEATS_MAX: Final = 256  # different lines whose repetitions are counted
CLOSE_SECONDS: Final = 2.0  # for the last lines to be written at the end
_OWN: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class _Lines(logging.Formatter):
    """Time, level, logger, message, and whatever `extra` carried."""

    def facts(self, record: logging.LogRecord) -> dict[str, Any]:
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        extra = {key: value for key, value in vars(record).items() if key not in _OWN}
        facts: dict[str, Any] = {"at": f"{stamp}.{int(record.msecs):03d}Z", "level": record.levelname.lower()}
        if "group" in extra:  # the first thing that a reader looks for
            facts["group"] = extra.pop("group")
        facts |= {"log": record.name, "message": record.getMessage()} | extra
        if record.exc_info:
            facts["exception"] = self.formatException(record.exc_info)
        return facts


class Text(_Lines):
    """`at=... level=info log=muster.group message="..." group=orders`; values with blanks are quoted as in JSON."""

    def format(self, record: logging.LogRecord) -> str:
        return " ".join(f"{key}={self._to_show(value)}" for key, value in self.facts(record).items())

    @staticmethod
    def _to_show(value: Any) -> str:
        text = str(value)
        if text and text.isprintable() and not set(text) & set(' "='):
            return text
        from json import dumps  # the first line with a blank in it needs it

        return make_printable(dumps(text, ensure_ascii=False))


class Json(_Lines):
    """One object a line."""

    def format(self, record: logging.LogRecord) -> str:
        from json import dumps

        return make_printable(dumps(self.facts(record), ensure_ascii=False, default=str))


class Repeats:
    """The lines that were written lately, and how often each has been repeated since."""

    def __init__(self) -> None:
        self._counts: dict[tuple[Any, ...], tuple[float, int, logging.LogRecord]] = {}  # the oldest first

    def count_repeat(self, record: logging.LogRecord, now_s: float) -> bool:
        """Count a record if it repeats another one, and return whether it does. Clients are not compared."""
        if record.levelno < logging.WARNING or record.exc_info:
            return False
        extra = sorted((key, str(value)) for key, value in vars(record).items() if key not in _OWN and key != "client")
        key = (record.levelno, record.name, record.getMessage(), *extra)
        known = self._counts.get(key)
        if known is None:
            if len(self._counts) < REPEATS_MAX:
                self._counts[key] = (now_s, 0, record)
            return False
        since, count, _ = known
        self._counts[key] = (since, count + 1, record)
        return True

    def end_repeats(self, now_s: float) -> list[logging.LogRecord]:
        """Take out what was first said so long ago that it may be said again. Returns the records that were repeated,
        each with the number of its repetitions."""
        ended: list[logging.LogRecord] = []
        while self._counts:
            key = next(iter(self._counts))
            since, count, record = self._counts[key]
            if now_s - since < REPEATS_SECONDS:
                break
            del self._counts[key]
            if count:
                again = copy(record)
                again.created, again.msecs = time.time(), 0
                again.__dict__["repeated"] = count
                ended.append(again)
        return ended


class QueuedHandler(logging.Handler):
    """Writes lines to a descriptor from a thread of its own. Logging never waits for the descriptor."""

    def __init__(self, fd: int, bytes_max: int = QUEUE_BYTES_MAX) -> None:
        super().__init__()
        self._fd = fd
        self._bytes_max = bytes_max
        self._queue: deque[bytes] = deque()
        self._queued_bytes = 0
        self._dropped = 0  # since a line was last queued
        self.dropped = 0  # lines, since the start
        self._repeats = Repeats()
        self._is_closing = False
        self._news = threading.Condition()
        self._thread = threading.Thread(target=self._write_lines, name="log", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        """Queue a line, or count it."""
        try:
            with self._news:
                if not self._repeats.count_repeat(record, time.monotonic()):
                    self._put(record)
                self._news.notify()
        except Exception:
            self.handleError(record)

    def close(self) -> None:
        """Write what is queued, for as long as it is taken within two seconds."""
        with self._news:
            self._is_closing = True
            self._news.notify()
        self._thread.join(CLOSE_SECONDS)
        super().close()

    def _put(self, record: logging.LogRecord) -> None:
        line = self.format(record).encode("utf-8", "backslashreplace") + b"\n"
        if self._queued_bytes + len(line) > self._bytes_max:
            self._dropped += 1
            self.dropped += 1
            return
        if self._dropped:
            lost = logging.LogRecord("muster.log", logging.WARNING, "", 0, "log lines were dropped", (), None)
            lost.__dict__["lines"], self._dropped = self._dropped, 0
            line = self.format(lost).encode() + b"\n" + line
        self._queue.append(line)
        self._queued_bytes += len(line)

    def _write_lines(self) -> None:
        while True:
            with self._news:
                if not (self._queue or self._is_closing):
                    self._news.wait(REPEATS_SECONDS / 2)
                self._put_repeats(time.monotonic() + (REPEATS_SECONDS if self._is_closing else 0))
                lines = list(self._queue)
                self._queue.clear()
                if self._is_closing and not lines:
                    return
            for line in lines:
                self._write(line)
                with self._news:
                    self._queued_bytes -= len(line)

    def _put_repeats(self, now_s: float) -> None:
        for record in self._repeats.end_repeats(now_s):
            self._put(record)

    def _write(self, line: bytes) -> None:
        """Write a line, however long that takes. A descriptor that is closed takes nothing any more."""
        while line:
            try:
                line = line[os.write(self._fd, line) :]
            except BlockingIOError:  # it is set not to block, by whoever shares it
                select.select([], [self._fd], [], 1)
            except OSError:
                return


def set_up(level: str, form: str) -> QueuedHandler:
    """Send what `muster.*` logs at `level` and above to standard error, without ever waiting for its reader."""
    handler = QueuedHandler(sys.stderr.fileno())
    handler.setFormatter(Json() if form == "json" else Text())
    logger = logging.getLogger("muster")
    logger.handlers[:] = [handler]
    logger.setLevel(level.upper())
    logger.propagate = False
    atexit.register(handler.close)
    return handler
