"""The server's log: nobody waits for its reader, what is lost is said, and what is repeated is counted."""

import json
import logging
import os
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from coordinator.cli.logs import REPEATS_SECONDS, Json, QueuedHandler, Repeats, Text


def record(message: str, level: int = logging.INFO, **extra: Any) -> logging.LogRecord:
    made = logging.LogRecord("muster.test", level, "", 0, message, (), None)
    made.__dict__.update(extra)
    return made


class Piped:
    """A handler that writes to a pipe."""

    def __init__(self, bytes_max: int) -> None:
        self.reading, writing = os.pipe()
        self.handler = QueuedHandler(writing, bytes_max)
        self.handler.setFormatter(Json())
        self._writing = writing

    def lines(self) -> list[dict[str, Any]]:
        """Close the handler, and read all that it has written."""
        found: list[bytes] = []

        def read() -> None:
            while chunk := os.read(self.reading, 65_536):
                found.append(chunk)

        reader = threading.Thread(target=read)
        reader.start()
        self.handler.close()
        os.close(self._writing)
        reader.join(30)
        return [json.loads(line) for line in b"".join(found).splitlines() if line.startswith(b"{")]


@pytest.fixture
def piped() -> Iterator[Piped]:
    made = Piped(200_000)
    yield made
    os.close(made.reading)


@pytest.mark.parametrize("formatter", [Text(), Json()])
def test_a_name_neither_steers_the_terminal_nor_is_another_one(formatter: logging.Formatter) -> None:
    """A line feed, an escape sequence of C1, a change of direction, a tag beyond 16 bits; letters stay letters."""
    name = "a\n\x9b2J\u202e\U000e0001größer 日本"
    line = formatter.format(record("m", group=name))
    assert line.isprintable() and "größer 日本" in line
    quoted = line.partition("group=")[2].partition(" log=")[0] if isinstance(formatter, Text) else None
    assert (json.loads(line)["group"] if quoted is None else json.loads(quoted)) == name


def test_lines_come_in_order(piped: Piped) -> None:
    for number in range(100):
        piped.handler.handle(record(f"line {number}", group="g"))
    assert [line["message"] for line in piped.lines()] == [f"line {number}" for number in range(100)]


def test_a_reader_that_reads_nothing_costs_lines_and_no_time_and_their_number_is_said(piped: Piped) -> None:
    for number in range(1_000):
        piped.handler.handle(record(f"{number} " + "x" * 1_000))  # several times what the pipe and the queue take
    assert piped.handler.dropped > 500
    while piped.handler._queued_bytes > 100_000:
        os.read(piped.reading, 65_536)
    piped.handler.handle(record("after"))
    lines = piped.lines()
    assert lines[-1]["message"] == "after"
    assert lines[-2]["message"] == "log lines were dropped"
    assert lines[-2]["lines"] <= piped.handler.dropped
    numbers = [int(line["message"].split()[0]) for line in lines if line["message"][0].isdigit()]
    assert numbers == sorted(set(numbers))


def test_repeated_warnings_are_counted_whoever_causes_them() -> None:
    repeats = Repeats()
    said = [repeats.count_repeat(record("bad", logging.WARNING, client=f"/10.0.0.{n}"), 100.0 + n) for n in range(5)]
    assert said == [False, True, True, True, True]
    assert not repeats.count_repeat(record("bad", logging.WARNING, bytes=7), 105.0), "it says something else"
    assert not repeats.end_repeats(104.0)
    (ended,) = repeats.end_repeats(100.0 + REPEATS_SECONDS)
    assert "repeated=4" in Text().format(ended)
    assert not repeats.count_repeat(record("bad", logging.WARNING), 111.0), "and it may be said again"


def test_what_groups_do_is_never_taken_for_a_repetition() -> None:
    repeats = Repeats()
    assert not any(repeats.count_repeat(record("member joined", group="g"), 1.0) for _ in range(3))


def test_repetitions_are_said_at_the_end(piped: Piped) -> None:
    for _ in range(3):
        piped.handler.handle(record("bad", logging.WARNING))
    assert [(line["message"], line.get("repeated")) for line in piped.lines()] == [("bad", None), ("bad", 2)]
