"""R11: whatever the bytes are, reading gives a message or a `ProtocolError`."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.codec import decode_request
from protocol.errors import ProtocolError
from tests.protocol import fuzz
from tests.protocol.targets import REQUESTS
from tests.protocol.values import Choices, message_of


def test_r11_damaged_frames_are_read_alike_by_both_codecs_or_refused_by_both() -> None:
    tried, read = fuzz.campaign(REQUESTS, seed=1, seconds=600, executions_max=15_000)
    assert tried == 15_000
    assert 750 < read < 14_250, "the frames are neither all whole nor all lost"


def test_r11_a_campaign_is_its_seed() -> None:
    heartbeats = [target for target in REQUESTS if target.api.module == "heartbeat"]
    first, second = (fuzz.campaign(heartbeats, seed=5, seconds=600, executions_max=2_000) for _ in range(2))
    assert first == second


@settings(max_examples=500, deadline=None, database=None, derandomize=True)
@given(st.binary(max_size=64))
def test_r11_any_bytes_at_all(data: bytes) -> None:
    try:
        decode_request(data)
    except ProtocolError:
        return
    assert fuzz.check(data)


@pytest.mark.parametrize("target", REQUESTS, ids=str)
def test_r11_each_single_byte_changed(target: fuzz.Target) -> None:
    frame = target.encode(message_of(target.body, Choices(Random(str(target)).randbytes(20))))[:300]
    for at in range(0, len(frame), len(frame) // 40 + 1):
        fuzz.check(frame[:at] + bytes([frame[at] ^ 0xFF]) + frame[at + 1 :])


def test_the_command_says_what_it_did(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["fuzz", "--seconds", "0", "--seed", "9", "--target", "sync_group_v3"])
    assert fuzz.main() == 0
    assert capsys.readouterr().out.startswith("seed 9: ")
