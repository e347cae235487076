"""Logs of one key's commits, damage to them, and what the decoder reads in a directory."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pipeline.decode.layout import TOPICS, log_dirs, spans
from pipeline.decode.rows import Options, read_table
from pipeline.synth import Writer, commit


def fill(writer: Writer, offsets: Iterable[int], at_ms: int = 1000) -> Writer:
    """Append a commit of each offset, in a batch of its own, a millisecond apart."""
    for number, offset in enumerate(offsets):
        writer.append([commit(("g", "t", 0), offset, at_ms + number)])
    return writer


def flip(file: Path, at: int = -1) -> None:
    """Turn a bit of one byte over."""
    data = bytearray(file.read_bytes())
    data[at] ^= 1
    file.write_bytes(data)


def read_rows(directory: Path, table: str, **options: Any) -> list[dict[str, Any]]:
    """The rows of a raw table, of all logs below a directory."""
    cut = [span for log in log_dirs([str(directory)], TOPICS) for span in spans(log)]
    found: list[dict[str, Any]] = read_table(cut, table, Options(**options)).to_pylist()
    return found
