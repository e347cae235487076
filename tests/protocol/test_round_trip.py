"""R11, R13: what is written is what is read, in each API, version and direction, and the two codecs never differ."""

from __future__ import annotations

import io
import random
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.constructs import uvarint
from protocol.decoder import UNREADABLE, decoder
from protocol.encoder import encoder_in_pieces
from protocol.errors import ProtocolError
from protocol.structs import TagSection
from tests.protocol.mutate import mutated
from tests.protocol.settings import SETTINGS
from tests.protocol.targets import CORRELATION_ID, RESPONSES, TARGETS, Target, by_api, note_each, outcome
from tests.protocol.values import CHOICES, Choices, message_of

KNOWN_TAGS: Final = TagSection._build
UNKNOWN_TAGS: Final = (60, 127, 128, 129, 16_383, 16_384, 2**21, 2**28, 2**31 - 1)
APIS: Final = by_api(TARGETS)
ANSWERS: Final = by_api(RESPONSES)


def write_and_read_again(targets: list[Target], how: settings) -> None:
    """Write messages by either codec, and read them and what a mistake has left of them by either."""
    decoders = [decoder(target.root) for target in targets]

    @how
    @given(CHOICES, st.integers(0, 2**32))
    def property(data: bytes, seed: int) -> None:
        for target, fast in zip(note_each(targets), decoders, strict=True):
            body = message_of(target.body, Choices(data))
            frame = target.encode(body)
            assert frame == target.build(body)
            read = target.decode(frame)
            assert read == target.frame_of(body) == target.parse(frame)
            assert target.decode(frame + b"surplus") == read
            broken = mutated(frame, random.Random(seed))
            assert outcome(fast, broken, UNREADABLE) == outcome(target.parse, broken, (ProtocolError,))

    property()


@pytest.mark.parametrize("api", APIS)
def test_r13_written_and_read_again_a_message_is_the_same_by_either_codec(api: str) -> None:
    write_and_read_again(APIS[api], SETTINGS)


@pytest.mark.long
def test_r13_hundreds_of_each_message_are_the_same_by_either_codec() -> None:
    for targets in APIS.values():
        write_and_read_again(targets, settings(SETTINGS, max_examples=200))


@pytest.mark.parametrize("api", APIS)
def test_fields_of_later_versions_change_nothing(api: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each struct of a flexible version may have tagged fields that nobody here knows, with any tag and of any size."""
    dice = random.Random(api)

    def build(section: TagSection, obj: object, stream: io.BytesIO, context: object, path: object) -> None:
        known = io.BytesIO()
        KNOWN_TAGS(section, obj, known, context, path)
        (count,), fields = known.getbuffer()[:1], known.getvalue()[1:]
        tags = sorted(dice.sample(UNKNOWN_TAGS, dice.choice((0, 1, 1, 2))))
        stream.write(uvarint(count + len(tags)) + fields)
        for tag in tags:
            size = dice.choice((0, 1, 126, 127, 128, 129, 300, 16_384))
            stream.write(uvarint(tag) + uvarint(size) + b"\xff" * size)

    monkeypatch.setattr(TagSection, "_build", build)
    for target in APIS[api]:
        body = message_of(target.body, Choices(dice.randbytes(100)))
        frame = target.build(body)
        assert target.decode(frame) == target.parse(frame) == target.frame_of(body)


@pytest.mark.parametrize("api", ANSWERS)
def test_an_encoder_in_pieces_writes_the_same_bytes(api: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("protocol.encoder.PIECE_ELEMENTS", 2)
    monkeypatch.setattr("protocol.encoder.ELEMENT_BITS", 1)
    encoders = [encoder_in_pieces(target.root) for target in ANSWERS[api]]

    @settings(SETTINGS, max_examples=5)
    @given(CHOICES)
    def property(data: bytes) -> None:
        for target, in_pieces in zip(note_each(ANSWERS[api]), encoders, strict=True):
            body = message_of(target.body, Choices(data))
            assert b"".join(in_pieces(CORRELATION_ID, body)) == target.encode(body)

    property()


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_r11_each_prefix_of_a_frame_is_refused(target: Target) -> None:
    frame = target.encode(message_of(target.body, Choices(bytes(range(1, 60)))))
    for end in range(0, len(frame), len(frame) // 60 + 1):
        with pytest.raises(ProtocolError):
            target.decode(frame[:end])
