"""A request that is decoded in steps is the same as one that is decoded at once, and no step of it is long."""

from typing import Any

import pytest

from protocol import bounds, codec
from protocol.codec import decode_request, decode_request_in_steps
from protocol.errors import ProtocolError, UnsupportedVersion
from protocol.steps import finish_steps
from tests.protocol.amplification import KINDS, arrays, stuffed
from tests.protocol.targets import REQUESTS, Target, outcome

COPIES = 307  # no whole number of parts of an array, whatever the size of its elements
NUMBERS = "bhlqBHLQd?"  # an array of these is read at once


def in_steps(frame: bytes) -> Any:
    return finish_steps(decode_request_in_steps(frame))


def count_steps(frame: bytes) -> int:
    return sum(1 for _ in decode_request_in_steps(frame))


@pytest.mark.parametrize("target", REQUESTS, ids=str)
def test_each_array_of_each_request_is_read_in_steps(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "STEP_BYTES", 64)
    monkeypatch.setattr(codec, "_request_step_decoders", {})
    for path, array in arrays(target.body):
        for kind in KINDS:
            frame = target.encode(stuffed(target.body, path, kind, COPIES))
            assert outcome(in_steps, frame, (ProtocolError,)) == outcome(decode_request, frame, (ProtocolError,))
            is_of_numbers = getattr(array.element, "fmtstr", "?")[-1] in NUMBERS and hasattr(array.element, "fmtstr")
            element_bytes = COPIES * array.element_min
            if not is_of_numbers:
                assert count_steps(frame) >= element_bytes // (4 * bounds.STEP_BYTES), f"{target} {path} {kind}"


@pytest.mark.parametrize("target", [one for one in REQUESTS if one.version == max(one.api.versions)], ids=str)
def test_a_frame_that_ends_early_is_refused_in_steps_as_at_once(target: Target) -> None:
    for path, _ in arrays(target.body):
        frame = target.encode(stuffed(target.body, path, "all", 5))
        for end in range(len(frame)):
            at_once = outcome(decode_request, frame[:end], (ProtocolError,))
            assert outcome(in_steps, frame[:end], (ProtocolError,)) == at_once


def test_a_frame_over_its_budget_is_refused_before_it_is_read() -> None:
    target = next(one for one in REQUESTS if str(one) == "metadata_v4_request")
    frame = target.encode(stuffed(target.body, ("topics",), "empty", 100_000))
    with pytest.raises(ProtocolError, match="more elements than it may have"):
        next(decode_request_in_steps(frame))


def test_an_unknown_version_is_refused_in_the_first_step() -> None:
    with pytest.raises(UnsupportedVersion):
        next(decode_request_in_steps(bytes.fromhex("0012 7fff 0000002a ffff")))
