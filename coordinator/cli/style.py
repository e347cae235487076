"""Bold and colours, on a terminal only: never in a pipe or a file, nor where `NO_COLOR` is set. Not a subcommand."""

import os
import re
import sys
from typing import Final, TextIO

BOLD: Final = "1"
RED: Final = "1;31"
_HEADINGS: Final = re.compile(r"^(usage:|[a-z][a-z ]*:$)", re.MULTILINE)


def is_colourful(stream: TextIO) -> bool:
    """Return whether `stream` is a terminal whose user has not asked for plain text (https://no-color.org)."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def paint(text: str, code: str, stream: TextIO) -> str:
    """`text` in an ANSI style, if `stream` shows styles."""
    return f"\x1b[{code}m{text}\x1b[0m" if is_colourful(stream) else text


def emphasize_error(text: str) -> str:
    return paint(text, RED, sys.stderr)


def emphasize_headings(text: str, stream: TextIO) -> str:
    """Return the text of a help page with its headings in bold."""
    return _HEADINGS.sub(lambda match: paint(match[0], BOLD, stream), text)
