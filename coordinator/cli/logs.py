"""How the server's log lines look: key=value or JSON, one line an entry, on standard error. Not a subcommand."""

import json
import logging
import sys
import time
from typing import Any, Final

_OWN: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class _Lines(logging.Formatter):
    """Time, level, logger, message, and whatever `extra` carried."""

    def facts(self, record: logging.LogRecord) -> dict[str, Any]:
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        facts = {"at": f"{stamp}.{int(record.msecs):03d}Z", "level": record.levelname.lower(), "log": record.name}
        facts["message"] = record.getMessage()
        facts |= {key: value for key, value in vars(record).items() if key not in _OWN}
        if record.exc_info:
            facts["exception"] = self.formatException(record.exc_info)
        return facts


class Text(_Lines):
    """`at=... level=info log=muster.group message="..." group=orders`; values with blanks are quoted as in JSON."""

    def format(self, record: logging.LogRecord) -> str:
        return " ".join(f"{key}={self._shown(value)}" for key, value in self.facts(record).items())

    @staticmethod
    def _shown(value: Any) -> str:
        text = str(value)
        if text and text.isprintable() and not set(text) & set(' "='):
            return text
        return json.dumps(text, ensure_ascii=False)


class Json(_Lines):
    """One object a line."""

    def format(self, record: logging.LogRecord) -> str:
        return json.dumps(self.facts(record), ensure_ascii=False, default=str)


def set_up(level: str, form: str) -> None:
    """Send what `muster.*` logs at `level` and above to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Json() if form == "json" else Text())
    logger = logging.getLogger("muster")
    logger.handlers[:] = [handler]
    logger.setLevel(level.upper())
    logger.propagate = False
