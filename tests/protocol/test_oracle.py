"""R13: an independent codec writes the same bytes for the same values, and reads ours."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given

from tests.protocol import oracle
from tests.protocol.settings import SETTINGS
from tests.protocol.targets import TARGETS, by_api, note_each
from tests.protocol.values import CHOICES


@pytest.mark.parametrize("api", APIS := by_api(oracle.KNOWN))
def test_r13_kio_and_this_codec_write_the_same_bytes_and_read_each_others(api: str) -> None:
    @SETTINGS
    @given(CHOICES)
    def property(data: bytes) -> None:
        for target in note_each(APIS[api]):
            oracle.check(target, data)

    property()


@pytest.mark.parametrize("api", APIS)
def test_r13_kio_and_this_codec_allow_null_alike_and_have_the_same_defaults(api: str) -> None:
    for target in APIS[api]:
        schema = target.api.request if target.direction == "request" else target.api.response
        oracle.check_fields(schema, oracle.entity_class(target), target.version, target.api.is_flexible(target.version))


@pytest.mark.long
def test_r13_kio_and_this_codec_agree_on_hundreds_of_each_message() -> None:
    for target in oracle.KNOWN:
        for seed in range(200):
            oracle.check(target, Random(f"{target} {seed}").randbytes(200))


def test_r13_kio_knows_all_but_the_versions_that_kafka_4_took_out() -> None:
    unknown = {target for target in TARGETS if target not in oracle.KNOWN}
    assert len(oracle.KNOWN) >= 416
    # KIP-896 took these out; Produce below 3 is advertised without being readable.
    assert all(
        target.version < target.api.kafka_4_3.start or (target.api.module == "produce" and target.version < 3)
        for target in unknown
        if target.api.kafka_4_3
    )


def test_r13_the_command_prints_how_many_were_compared(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["oracle", "--examples", "2", "--seed", "3", "--target", "heartbeat_v4"])
    assert oracle.main() == 0
    assert "2 messages x 2 examples, seed 3" in capsys.readouterr().out
