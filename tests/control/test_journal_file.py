"""The file of a journal is made piece by piece, and has what the journal had when it was asked for."""

import json
from base64 import b64decode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from coordinator.control.inputs import AdvanceInput, AskInput, Input, Kind, Origin, StepInput, VerbInput
from coordinator.control.journal import Entry, Journal, JournalClient
from coordinator.control.journal_file import PART_BYTES, PIECE_BYTES, read_journal, write_in_pieces, write_journal
from coordinator.core.events import Cause
from coordinator.core.moves import MoveGroup, StopBroker
from coordinator.core.principal import Principal
from coordinator.core.share_partitions.operate import ChangeRecords
from coordinator.core.verbs import Forget, RemoveMember, SetTarget

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


TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=5)
NUMBERS = st.integers(0, 2**31)
CLIENTS = st.builds(JournalClient, TEXTS, NUMBERS, NUMBERS, TEXTS, st.builds(Principal, TEXTS, TEXTS), NUMBERS)
REQUESTS = st.tuples(
    CLIENTS, st.binary(max_size=9), NUMBERS, NUMBERS, st.none() | st.binary(max_size=9), st.booleans(), TEXTS
)
VERBS = st.sampled_from([
    RemoveMember("g", "m", Cause.MEMBER_KICKED, "why"), SetTarget("g", {"m": {"t": (0, 2)}}, {}), Forget("g"),
    MoveGroup("g", 2, 7, 1, keep_members=False), StopBroker(1, 5), ChangeRecords("g", bytes(16), 3, 4, 5, None, 2),
])  # fmt: skip
INPUTS = st.one_of(
    st.tuples(st.sampled_from((Kind.FIRE, Kind.REAL, Kind.FORGET, Kind.HELD)), NUMBERS),
    st.tuples(st.sampled_from((Kind.REPLIES, Kind.FLUSH, Kind.SYNC, Kind.SYNCED)), st.none()),
    st.tuples(st.just(Kind.STEP), st.none() | st.builds(StepInput, st.integers(-5, 5), NUMBERS)),
    st.tuples(st.just(Kind.ASK), st.builds(AskInput, st.binary(max_size=9), NUMBERS)),
    st.tuples(st.just(Kind.ADVANCE), st.builds(AdvanceInput, NUMBERS, st.lists(st.booleans(), max_size=3))),
    st.tuples(st.just(Kind.VERB), st.builds(VerbInput.of, VERBS, NUMBERS)),
)
ORIGINS = st.builds(
    Origin, opened_ms=NUMBERS, seed=NUMBERS, ids=NUMBERS, is_empty=st.just(True), compat=TEXTS,
    settings=st.dictionaries(TEXTS, NUMBERS, max_size=2), topics=st.just({"t": 3}), listeners=st.just(()),
    is_synced=st.booleans(), cluster_id=TEXTS, producer_ids=NUMBERS,
)  # fmt: skip


@given(ORIGINS, st.lists(st.one_of(REQUESTS, INPUTS), max_size=8))
@settings(max_examples=40)
def test_what_is_read_is_what_was_written(origin: Origin, noted: list[tuple[object, ...]]) -> None:
    """All that a replay may depend on: who has asked by which listener and broker, and each input in its place."""
    journal = Journal()
    journal.begin(origin)
    for one in noted:
        if isinstance(one[0], Kind):
            journal.note_input(*one)  # type: ignore[arg-type]  # a kind and its value
            continue
        client, frame, at_ms, ticket, response, is_decided, fault = one
        entry = journal.note_request(at_ms, client, frame, ticket)  # type: ignore[arg-type]  # as they were drawn
        entry.is_decided, entry.fault = bool(is_decided), str(fault)
        if response is not None:
            journal.note_response(entry, response, at_ms + 1)  # type: ignore[arg-type, operator]  # as they were drawn
    expected = [  # to which turn an entry belongs, inputs say
        replace(one, answer=0, ends_turn=False) if isinstance(one, Entry) else one for one in journal.everything()
    ]
    found = read_journal(write_journal(journal))
    assert found.origin == origin
    assert found.items == expected
    assert sum(isinstance(one, Input) for one in found.items) >= sum(
        isinstance(one[0], Kind) and one[0] is not Kind.FLUSH for one in noted
    )
