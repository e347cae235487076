"""A member may commit at its own epoch, and at an older one for what it has owned since then (KIP-1251)."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.core.env import Env
from coordinator.core.kinds.consumer import group as consumer
from coordinator.core.kinds.consumer.validation import validate_commit as validate_of_consumers
from coordinator.core.kinds.consumer.validation import validate_fetch as validate_fetch_of_consumers
from coordinator.core.kinds.streams import group as streams
from coordinator.core.kinds.streams.tasks import HeldTasks
from coordinator.core.kinds.streams.validation import validate_commit as validate_of_streams
from coordinator.core.kinds.streams.validation import validate_fetch as validate_fetch_of_streams
from coordinator.core.limits import Limits
from coordinator.core.result import Call
from protocol.errors import ErrorCode
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.core.kinds.streams.topologies import part, topics, topology
from tests.requests import commit

TOPICS = topics(a=3, b=3)
PLACES = [(name, partition) for name in ("a", "b") for partition in range(3)]
EPOCH = 6
Held = Mapping[tuple[str, int], int]  # since which epoch


def nest(held: Held, key: Callable[[str], Any]) -> dict[Any, dict[int, int]]:
    found: dict[Any, dict[int, int]] = {}
    for (name, partition), since in held.items():
        found.setdefault(key(name), {})[partition] = since
    return found


def consumers(assigned: Held, pending: Held) -> tuple[Any, Any]:
    owned = [nest(held, lambda name: TOPICS[name].id) for held in (assigned, pending)]
    member = consumer.Member("m", epoch=EPOCH, assigned=owned[0], pending=owned[1])
    return consumer.ConsumerGroup("g", epoch=EPOCH).with_member(member), validate_of_consumers


def applications(assigned: Held, pending: Held) -> tuple[Any, Any]:
    """Two subtopologies, each of which reads one topic."""
    tasks = [HeldTasks(active=nest(held, lambda name: name.upper())) for held in (assigned, pending)]
    member = streams.Member("m", epoch=EPOCH, assigned=tasks[0], pending=tasks[1])
    group = streams.StreamsGroup("g", epoch=EPOCH, topology=topology(part("A", ["a"]), part("B", ["b"])))
    return group.with_member(member), validate_of_streams


@pytest.mark.parametrize("kind", [consumers, applications])
@given(
    assigned=st.dictionaries(st.sampled_from(PLACES), st.integers(1, EPOCH)),
    pending=st.dictionaries(st.sampled_from(PLACES), st.integers(1, EPOCH)),
    wanted=st.sets(st.sampled_from([*PLACES, ("a", 9)]), min_size=1, max_size=3),
    epoch=st.integers(-1, EPOCH + 1),
)
def test_a_member_commits_at_its_epoch_or_what_it_has_owned_since(
    kind: Any, assigned: Held, pending: Held, wanted: set[tuple[str, int]], epoch: int
) -> None:
    pending = {place: since for place, since in pending.items() if place not in assigned}
    group, validate = kind(assigned, pending)
    offsets: dict[str, dict[int, int]] = nest(dict.fromkeys(wanted, 1), str)
    call = Call(1, 0, 9, "c", "/h", str)
    request = commit("g", offsets, epoch, member_id="m")
    code = validate(group, request, Env(call, Limits(), TOPICS))
    owned = {**assigned, **pending}
    may = epoch == EPOCH or (
        epoch < EPOCH and all(place in owned and epoch >= owned[place] for place in wanted if place in PLACES)
    )
    assert code == (ErrorCode.NONE if may else ErrorCode.STALE_MEMBER_EPOCH)


TXN_VERSIONS = {5: ErrorCode.ILLEGAL_GENERATION, 6: ErrorCode.STALE_MEMBER_EPOCH}


@pytest.mark.parametrize("kind", [consumers, applications])
@given(
    owned=st.dictionaries(st.sampled_from(PLACES), st.integers(1, EPOCH)),
    wanted=st.sets(st.sampled_from([*PLACES, ("a", 3)]), min_size=1, max_size=2),
    epoch=st.integers(-2, EPOCH + 1),
    names=st.sampled_from([("m", None), ("m", "i"), ("", None), ("", "i"), ("other", None)]),
    version=st.sampled_from(sorted(TXN_VERSIONS)),
)
def test_in_a_transaction_who_names_nobody_may_commit_without_an_epoch(
    kind: Any, owned: Held, wanted: set[tuple[str, int]], epoch: int, names: tuple[str, str | None], version: int
) -> None:
    """All others are members at their epoch, or had what they commit. Older versions have no word for what is stale."""
    group, validate = kind(owned, {})
    topics = [
        TxnOffsetCommitRequestTopic(name, (TxnOffsetCommitRequestPartition(partition, 1),))
        for name, partition in wanted
    ]
    request = TxnOffsetCommitRequest("x", "g", 1, 0, epoch, *names, tuple(topics))
    code = validate(group, request, Env(Call(1, 0, version, "c", "/h", str), Limits(), TOPICS))
    had = all(place in owned and epoch >= owned[place] for place in wanted if place in PLACES)
    if epoch == -1 and names == ("", None):
        expected = ErrorCode.NONE
    elif names[0] != "m":
        expected = ErrorCode.UNKNOWN_MEMBER_ID
    else:
        expected = ErrorCode.NONE if epoch == EPOCH or (epoch < EPOCH and had) else TXN_VERSIONS[version]
    assert code == expected


@pytest.mark.parametrize(
    ("kind", "validate"), [(consumers, validate_fetch_of_consumers), (applications, validate_fetch_of_streams)]
)
def test_a_member_reads_offsets_at_its_epoch_alone_and_nobody_at_none(kind: Any, validate: Any) -> None:
    group, _ = kind({}, {})
    epochs = (-1, 0, EPOCH - 1, EPOCH, EPOCH + 1)
    stale = ErrorCode.STALE_MEMBER_EPOCH
    assert [validate(group, "m", epoch) for epoch in epochs] == [stale, stale, stale, ErrorCode.NONE, stale]
    assert {validate(group, "other", epoch) for epoch in epochs} == {ErrorCode.UNKNOWN_MEMBER_ID}
    assert [validate(group, None, epoch) for epoch in epochs] == [ErrorCode.NONE] + [ErrorCode.UNKNOWN_SERVER_ERROR] * 4
