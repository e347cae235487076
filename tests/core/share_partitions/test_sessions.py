"""Share sessions: which epochs are taken, what a session knows, and when it ends."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.core.share_partitions import sessions as bounds
from coordinator.core.share_partitions.sessions import (
    EPOCH_MAX,
    FINAL_EPOCH,
    INITIAL_EPOCH,
    SESSION_PARTITIONS_MAX,
    SESSIONS_PARTITIONS_MAX,
    SessionKey,
    SessionPartition,
    ShareSession,
    ShareSessions,
)
from protocol.errors import ErrorCode

KEY = SessionKey("orders", "a", 0)
A, B, C = [(bytes(15) + bytes([number]), 0) for number in (1, 2, 3)]


def opened(*partitions: SessionPartition, connection: int = 7, sessions_max: int = 2) -> ShareSessions:
    sessions = ShareSessions(sessions_max)
    assert isinstance(sessions.open(KEY, connection, partitions, False), ShareSession)
    return sessions


def known(session: ShareSession | ErrorCode | None) -> list[SessionPartition]:
    assert isinstance(session, ShareSession)
    return list(session.partitions)


def close(sessions: ShareSessions, key: SessionKey) -> ShareSession | None:
    session = sessions.find(key)
    assert session is not None
    return sessions.close(session)


@pytest.mark.parametrize("epoch", [2, 0, -2, 5])
def test_another_epoch_than_the_next_is_refused_and_changes_nothing(epoch: int) -> None:
    sessions = opened(A)
    before = sessions.find(KEY)
    assert sessions.continue_fetching(KEY, epoch, (B,)) == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert sessions.continue_acknowledging(KEY, epoch) == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert sessions.find(KEY) == before


def test_the_final_epoch_is_no_fetch() -> None:
    sessions = opened(A)
    assert sessions.continue_fetching(KEY, FINAL_EPOCH) == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert known(sessions.continue_fetching(KEY, 1)) == [A]


def test_fetches_and_acknowledgements_count_the_same_epochs() -> None:
    sessions = opened(A)
    for epoch in (1, 3, 5):
        assert isinstance(sessions.continue_fetching(KEY, epoch), ShareSession)
        assert isinstance(sessions.continue_acknowledging(KEY, epoch + 1), ShareSession)


def test_an_acknowledgement_cannot_open_a_session() -> None:
    sessions = ShareSessions(2)
    assert sessions.continue_acknowledging(KEY, INITIAL_EPOCH) == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    for epoch in (1, FINAL_EPOCH):
        assert sessions.continue_acknowledging(KEY, epoch) == ErrorCode.SHARE_SESSION_NOT_FOUND
    assert sessions.continue_fetching(KEY, 1) == ErrorCode.SHARE_SESSION_NOT_FOUND


def test_partitions_are_added_and_forgotten() -> None:
    sessions = opened(A, B)
    assert known(sessions.continue_fetching(KEY, 1)) == [A, B]
    assert known(sessions.continue_fetching(KEY, 2, (B, C), (A,))) == [B, C]
    assert known(sessions.continue_fetching(KEY, 3, (), (A, B, C))) == []


def test_acknowledgements_do_not_open_a_session() -> None:
    assert ShareSessions(2).open(KEY, 7, (A,), True) == ErrorCode.INVALID_REQUEST


def test_a_session_is_opened_anew_and_counts_once() -> None:
    sessions = opened(A, sessions_max=1)
    assert sessions.open(SessionKey("orders", "b", 0), 8, (A,), False) == ErrorCode.SHARE_SESSION_LIMIT_REACHED
    assert known(sessions.open(KEY, 8, (B,), False)) == [B]
    assert sessions.close_connection(7) == [], "the connection of before carries it no longer"
    assert [session.key for session in sessions.close_connection(8)] == [KEY]
    assert isinstance(sessions.open(SessionKey("orders", "b", 0), 8, (A,), False), ShareSession)


def test_a_lost_connection_closes_its_sessions_alone() -> None:
    sessions = opened(A)
    sessions.open(SessionKey("bills", "a", 0), 7, (A,), False)
    close(sessions, KEY)
    assert sessions.continue_fetching(SessionKey("bills", "a", 0), 1) != ErrorCode.SHARE_SESSION_NOT_FOUND
    assert sessions.close_connection(8) == []
    assert [session.key for session in sessions.close_connection(7)] == [SessionKey("bills", "a", 0)]
    assert len(sessions) == 0


def test_a_final_acknowledgement_leaves_the_session_to_be_closed() -> None:
    sessions = opened(A)
    assert known(sessions.continue_acknowledging(KEY, FINAL_EPOCH)) == [A]
    assert known(close(sessions, KEY)) == [A]
    assert sessions.find(KEY) is None


def test_the_session_of_before_cannot_be_closed_in_place_of_the_one_that_is_open() -> None:
    sessions = opened(A)
    before = sessions.find(KEY)
    assert before is not None
    after = sessions.open(KEY, 8, (B,), False)
    assert sessions.close(before) is None
    assert sessions.find(KEY) == after


def test_epochs_begin_again_at_one() -> None:
    sessions = opened(A)
    session = sessions.find(KEY)
    assert session is not None
    sessions._replace(ShareSession(KEY, 7, EPOCH_MAX, session.partitions))
    found = sessions.continue_fetching(KEY, EPOCH_MAX)
    assert isinstance(found, ShareSession)
    assert found.epoch == 1


def test_a_partition_with_records_is_read_last_next_time() -> None:
    session = opened(A, B).find(KEY)
    assert session is not None
    assert session.note_answer(A, has_records=True, has_error=False)
    assert list(session.partitions)[-1] == A


def test_a_response_names_what_is_new() -> None:
    session = ShareSession(KEY, 1, 1, {A: False, B: True})
    assert not session.note_answer(A, has_records=False, has_error=False)
    assert session.note_answer(B, has_records=False, has_error=False), "it was added"
    assert not session.note_answer(B, has_records=False, has_error=False)
    assert session.note_answer(B, has_records=False, has_error=True)
    assert session.note_answer(B, has_records=False, has_error=False), "the error is over"
    assert not session.note_answer(C, has_records=False, has_error=False), "it is forgotten"


def test_sessions_have_so_many_partitions() -> None:
    """They need not exist: without a bound, a client could name them without end."""
    many = [(bytes(16), number) for number in range(SESSION_PARTITIONS_MAX + 1)]
    sessions = ShareSessions(100)
    assert sessions.open(KEY, 1, many, False) == ErrorCode.SHARE_SESSION_LIMIT_REACHED
    assert isinstance(sessions.open(KEY, 1, many[1:], False), ShareSession)
    assert sessions.continue_fetching(KEY, 1, many[:1]) == ErrorCode.SHARE_SESSION_LIMIT_REACHED
    assert isinstance(sessions.continue_fetching(KEY, 1, many[:1], many[5:6]), ShareSession), "it was not counted"
    others = SESSIONS_PARTITIONS_MAX // SESSION_PARTITIONS_MAX - 1
    for number in range(others):
        assert isinstance(sessions.open(SessionKey("g", str(number), 0), 1, many[1:], False), ShareSession)
    assert sessions.open(SessionKey("g", "last", 0), 1, (A,), False) == ErrorCode.SHARE_SESSION_LIMIT_REACHED
    close(sessions, SessionKey("g", "0", 0))
    assert isinstance(sessions.open(SessionKey("g", "last", 0), 1, (A,), False), ShareSession)


KEYS = [SessionKey(*one) for one in [("g", "a", 0), ("g", "b", 0), ("h", "a", 0), ("h", "b", 0), ("g", "a", 1)]]
NAMED = [(bytes(15) + b"t", number) for number in range(6)]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["open", "open", "fetch", "fetch", "close", "lose"]),
            st.sampled_from(KEYS),
            st.lists(st.sampled_from(NAMED), max_size=6),
            st.lists(st.sampled_from(NAMED), max_size=2),
        ),
        min_size=6,
        max_size=20,
    )
)
def test_what_is_left_of_the_bounds_may_be_taken_and_no_more(
    steps: list[tuple[str, SessionKey, list[SessionPartition], list[SessionPartition]]],
) -> None:
    """Three sessions with a broker, five partitions in each and nine in all. What makes them no more is never refused."""
    sessions, held = ShareSessions(3), dict[SessionKey, set[SessionPartition]]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bounds, "SESSION_PARTITIONS_MAX", 5)
        patch.setattr(bounds, "SESSIONS_PARTITIONS_MAX", 9)
        for step, key, named, forgotten in steps:
            before = held.get(key, set())
            if step == "lose":
                assert {one.key for one in sessions.close_connection(7)} == held.keys()
                held.clear()
            elif step == "close":
                if held.pop(key, None) is not None:
                    assert set(known(close(sessions, key))) == before
            else:
                wanted = set(named) if step == "open" else (before | set(named)) - set(forgotten)
                if step == "fetch" and key not in held:
                    continue
                session = sessions.find(key)
                found = (
                    sessions.open(key, 7, named, False)
                    if step == "open"
                    else sessions.continue_fetching(key, 0 if session is None else session.epoch, named, forgotten)
                )
                total = sum(map(len, held.values())) - len(before) + len(wanted)
                has_room = len(wanted) <= 5 and (len(wanted) <= len(before) or total <= 9)
                is_room = has_room and (key in held or sum(one.node_id == key.node_id for one in held) < 3)
                assert isinstance(found, ShareSession) == is_room
                if is_room:
                    held[key] = wanted
            assert len(sessions) == len(held)
            assert all(set(known(sessions.find(one))) == partitions for one, partitions in held.items())


def test_a_session_that_opens_anew_with_fewer_partitions_needs_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if there are too many of all sessions by now."""
    sessions = opened(A, B, C)
    monkeypatch.setattr(bounds, "SESSIONS_PARTITIONS_MAX", 1)
    assert known(sessions.open(KEY, 7, (A, B, C), False)) == [A, B, C]
    assert known(sessions.open(KEY, 7, (A, B), False)) == [A, B]
    assert known(sessions.continue_fetching(KEY, 1, (), (B,))) == [A]
    assert sessions.continue_fetching(KEY, 2, (B,)) == ErrorCode.SHARE_SESSION_LIMIT_REACHED
