"""The file of a journal is made piece by piece, and has what the journal had when it was asked for."""

import json
from base64 import b64decode

import pytest

from coordinator.control.journal import Entry, Journal, JournalClient
from coordinator.control.journal_file import PART_BYTES, PIECE_BYTES, write_in_pieces, write_journal

CLIENT = JournalClient('/127.0.0.1 "frame":"', 9, 1)


def journal_of(*frames: bytes) -> tuple[Journal, list[Entry]]:
    """A journal of these requests, every second of which is answered by its bytes in reverse; and its entries."""
    journal = Journal(1 << 30)
    entries = [journal.note_request(number, CLIENT, frame) for number, frame in enumerate(frames)]
    for entry in entries[1::2]:
        journal.note_response(entry, entry.frame[::-1], entry.number)
    return journal, entries


@pytest.mark.parametrize("size", [0, 5, 1_000, PIECE_BYTES - 1, PIECE_BYTES, 3 * PART_BYTES + 1, 7_000_001])
def test_a_piece_is_bounded_however_long_a_frame_is(size: int) -> None:
    frames = [b"%7d" % number + bytes(size) for number in range(4 if size > 10_000 else 2_000)]
    pieces = list(write_in_pieces(journal_of(*frames)[0]))
    assert max(map(len, pieces)) < 4 * PIECE_BYTES
    assert len(pieces) > 1
    _, *lines = map(json.loads, b"".join(pieces).splitlines())
    assert [b64decode(line["frame"]) for line in lines] == frames
    responses = [line["response"] and b64decode(line["response"]) for line in lines]
    assert responses == [frame[::-1] if number % 2 else None for number, frame in enumerate(frames)]
    assert {line["host"] for line in lines} == {CLIENT.host}


def test_what_comes_while_it_is_read_is_not_in_it() -> None:
    journal, entries = journal_of(*[bytes(PIECE_BYTES)] * 4)
    before = write_journal(journal)
    pieces = write_in_pieces(journal)
    first = next(pieces)
    for entry in entries[::2]:
        journal.note_response(entry, b"late", 99)
    entries[-1].ends_turn = True
    journal.note_request(100, CLIENT, b"late")
    assert first + b"".join(pieces) == before
    assert write_journal(journal) != before
