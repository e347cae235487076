"""R15: what a frame costs in memory is bounded by its bytes, whatever is in it."""

from __future__ import annotations

import json
import subprocess
import sys
from struct import pack

import pytest

from protocol import bounds, codec, decoder
from protocol.bounds import budget_of
from protocol.codec import decode_request, encode_request
from protocol.constructs import uvarint
from protocol.errors import ProtocolError
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from protocol.structs import StructOf
from protocol.traits import Trait
from tests.protocol.amplification import LATEST, arrays, frames, grown, stuffed
from tests.protocol.targets import TARGETS, outcome

MIB = 1 << 20


@pytest.mark.parametrize(
    ("size", "every"),  # no multiples of 2: there are four kinds of frames for each array
    [
        (MIB, 3),
        (3_000_000, 11),
        *(pytest.param(size, 1, marks=pytest.mark.long) for size in (MIB, 3_000_000, 8_000_000)),
    ],
)
def test_r15_the_worst_legal_frame_of_each_api_costs_at_most_16_times_its_bytes(size: int, every: int) -> None:
    command = [sys.executable, "-m", "tests.protocol.amplification", "--bytes", str(size), "--every", str(every)]
    result = json.loads(subprocess.run(command, capture_output=True, check=True, timeout=120).stdout)
    assert result["frames"] >= 500 // every
    assert (0 if size > MIB else 1) <= result["accepted"] < result["frames"]  # all of the longer ones are over a budget
    assert (0 if size > MIB else 4) < result["ratio"] <= 16, result["worst"]
    assert result["bytes"] + size <= 64 * MIB, "more than a connection may cost"


def test_r15_the_budget_grows_with_the_frame_between_a_floor_and_a_ceiling() -> None:
    assert budget_of(1) == 4 * MIB
    assert budget_of(MIB) == 15 * MIB
    assert budget_of(100 * MIB) == 24 * MIB


def commit(topics: int, partitions: int) -> bytes:
    """An OffsetCommit v8 with names of twelve letters and no metadata."""
    partition = pack(">iqiBB", 1, 1_000_000, 5, 1, 0)
    one = uvarint(13) + b"topic-000001" + uvarint(partitions + 1) + partition * partitions + b"\0"
    head = pack(">hhihB", 8, 8, 1, -1, 0) + b"\x02g" + pack(">i", 5) + b"\x02m" + b"\0"
    return head + uvarint(topics + 1) + one * topics + b"\0"


def test_r15_honest_requests_are_far_from_the_budget() -> None:
    """A hundred thousand partitions in one commit; ten thousand topics of one partition each, with short names."""
    assert len(decode_request(commit(1, 100_000)).body.topics[0].partitions) == 100_000
    assert len(decode_request(commit(10_000, 1)).body.topics) == 10_000
    names = [f"t-{number:05}" for number in range(10_000)]
    asked = MetadataRequest(topics=tuple(MetadataRequestTopic(name=name) for name in names))
    assert len(decode_request(encode_request(3, 1, 1, None, asked)[4:]).body.topics) == 10_000
    fetched = tuple(OffsetFetchRequestTopic(name=name, partition_indexes=(0,)) for name in names)
    frame = encode_request(9, 6, 1, None, OffsetFetchRequest(group_id="g", topics=fetched))[4:]
    assert len(decode_request(frame).body.topics) == 10_000


def test_r15_only_offsets_are_asked_for_by_the_hundred_thousand() -> None:
    """Ten thousand topics are fine; 100,000 would keep the loop busy for long, and are refused before they are read."""

    def names(count: int) -> bytes:
        asked = MetadataRequest(topics=tuple(MetadataRequestTopic(name=f"t-{number:05}") for number in range(count)))
        return encode_request(3, 12, 1, None, asked)[4:]

    assert len(decode_request(names(10_000)).body.topics) == 10_000
    with pytest.raises(ProtocolError, match="Metadata v12: more elements than it may have"):
        decode_request(names(100_000))


def test_r15_empty_arrays_in_elements_are_charged_as_elements_are() -> None:
    """Each array and each struct of a request takes some of the time that reading a frame may: 48 bytes' worth."""
    refused, accepted = set(), []
    for target in LATEST:
        for path, array in arrays(target.body):
            if not (inner := list(arrays(array.element)) if isinstance(array.element, StructOf) else []):
                continue
            own = 1 + sum(1 for names, _ in inner if len(names) == 1)
            one, two = (target.encode(stuffed(target.body, path, "empty", copies)) for copies in (1, 2))
            most = bounds.BUDGET_CEILING if Trait.LARGE in target.api.traits else bounds.BUDGET_FLOOR
            frame = grown(one, two, array.compact, (most // (48 * own) + 1) * (len(two) - len(one)))
            name = f"{target} {'.'.join(path)}"
            if outcome(target.decode, frame, (ProtocolError,)) is None:
                refused.add(name)
            else:
                accepted.append(name)
    assert len(refused) >= 20
    assert not accepted


@pytest.fixture
def low_floor(monkeypatch: pytest.MonkeyPatch) -> None:
    """The floor of the budget is above all frames that are explained, so it is lowered here."""
    monkeypatch.setattr(bounds, "BUDGET_FLOOR", 1500)
    monkeypatch.setattr(decoder, "FLOOR_FRAME", 100)
    monkeypatch.setattr(codec, "_request_decoders", {})  # the floor is written into what is generated


@pytest.mark.usefixtures("low_floor")
def test_r15_both_codecs_charge_the_same() -> None:
    refused, decoders = 0, {str(target): decoder.decoder(target.root) for target in LATEST}
    for size in (100, 160, 700):
        for name, target, frame in frames(size):
            fast = outcome(decoders[str(target)], frame, decoder.UNREADABLE)
            assert fast == outcome(target.parse, frame, (ProtocolError,)), (name, size)
            refused += fast is None
    assert refused >= 100


@pytest.mark.usefixtures("low_floor")
def test_r15_the_interpretation_says_where_the_budget_ends() -> None:
    frame = pack(">hhihi", 3, 1, 1, -1, 50) + b"\0\x02ab" * 50
    target = next(target for target in TARGETS if str(target) == "metadata_v1_request")
    with pytest.raises(ProtocolError, match="costs more memory than a frame of this size may"):
        target.parse(frame)


def test_r15_there_is_an_array_in_most_requests() -> None:
    assert sum(1 for target in LATEST if list(arrays(target.body))) >= 25


# ApiVersions v3 is read before anybody is authenticated, and its header has tagged fields (CVE-2026-111115).
API_VERSIONS = pack(">hhih", 18, 3, 1, -1)


def tags(count: int, first: int = 0) -> bytes:
    """So many empty tagged fields that nobody knows."""
    return uvarint(count) + b"".join(uvarint(first + tag) + b"\0" for tag in range(count))


BODY = b"\x02a\x02b\0"


def test_r15_unknown_tags_are_skipped_and_nothing_is_kept_of_them() -> None:
    plain = decode_request(API_VERSIONS + b"\0" + BODY)
    assert decode_request(API_VERSIONS + tags(1024) + BODY) == plain
    assert decode_request(API_VERSIONS + b"\x01\x05\x03abc" + BODY) == plain


@pytest.mark.parametrize(
    ("section", "reason"),
    [
        (tags(1025), "1025 tagged fields"),
        (tags(1300), "1300 tagged fields"),
        (uvarint(4) + b"\0\0", "4 tagged fields where"),
        (b"\x02\x05\0\x05\0", "tag 5 behind tag 5"),
        (b"\x02\x05\0\x04\0", "tag 4 behind tag 5"),
        (b"\x01\x05\x64", "a tagged field of 100 bytes where 5 are left"),
    ],
)
def test_r15_tags_are_few_and_ascending_and_no_longer_than_the_frame(section: bytes, reason: str) -> None:
    with pytest.raises(ProtocolError, match=reason) as refused:
        decode_request(API_VERSIONS + section + BODY)
    assert refused.value.path == "tags"
