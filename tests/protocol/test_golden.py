"""Frames that released clients and Apache Kafka really sent, kept as files that `tests.protocol.capture` wrote.

Each file's name says what it is: `<api>_v<version>_<request|response>_<client>-<client's version>.bin`.
"""

import re
from pathlib import Path
from struct import pack
from typing import NamedTuple

import pytest

from protocol.apis import API_VERSIONS, TABLE
from protocol.codec import decode_request, decode_response, encode_request, encode_response
from protocol.errors import UnsupportedVersion
from protocol.messages.consumer_protocol import read_assignment, read_subscription, version_of, write

FOLDER = Path(__file__).parent / "golden"
NAME = re.compile(r"(?P<module>[a-z_]+)_v(?P<version>\d+)_(?P<direction>request|response)_(?P<client>.+)\.bin")
KEYS = {api.module: api.key for api in TABLE}


class Golden(NamedTuple):
    key: int
    version: int
    direction: str
    frame: bytes


def golden(path: Path) -> Golden:
    match = NAME.fullmatch(path.name)
    assert match, f"{path.name} does not say what it is"
    return Golden(KEYS[match["module"]], int(match["version"]), match["direction"], path.read_bytes())


FILES = sorted(FOLDER.glob("*.bin"))
FROM_THE_FUTURE = FOLDER / "api_versions_v5_request_franz-go-1.22.2.bin"  # its first try on every connection


@pytest.mark.parametrize("path", [path for path in FILES if path != FROM_THE_FUTURE], ids=lambda path: path.stem)
def test_a_golden_frame_reads_and_writes_to_the_same_bytes(path: Path) -> None:
    key, version, direction, frame = golden(path)
    if direction == "request":
        request = decode_request(frame)
        assert (request.api_key, request.version) == (key, version)
        again = encode_request(key, version, request.correlation_id, request.client_id, request.body)
    else:
        response = decode_response(key, version, frame)
        again = encode_response(key, version, response.correlation_id, response.body)
    assert again == pack(">i", len(frame)) + frame


JOINS = [path for path in FILES if path.name.startswith(("join_group_", "sync_group_")) and "_request_" in path.name]


@pytest.mark.parametrize("path", JOINS, ids=lambda path: path.stem)
def test_what_consumers_say_inside_reads_and_writes_to_the_same_bytes(path: Path) -> None:
    body = decode_request(path.read_bytes()).body
    for data in [protocol.metadata for protocol in getattr(body, "protocols", ())]:
        assert read_subscription(data).topics
        assert write(read_subscription(data), version_of(data)) == data
    for data in [given.assignment for given in getattr(body, "assignments", ())]:
        assert read_assignment(data).assigned_partitions
        assert write(read_assignment(data), version_of(data)) == data


def test_a_version_that_nobody_here_knows_is_named_with_what_its_answer_needs() -> None:
    """KIP-511: such an ApiVersions is answered all the same, so its correlation id must be read."""
    with pytest.raises(UnsupportedVersion) as caught:
        decode_request(FROM_THE_FUTURE.read_bytes())
    assert (caught.value.api_key, caught.value.version) == (API_VERSIONS, 5)
    assert caught.value.correlation_id == int.from_bytes(FROM_THE_FUTURE.read_bytes()[4:8], "big")


def test_there_are_requests_and_responses_of_every_client_we_name() -> None:
    kinds = [match for path in FILES if (match := NAME.fullmatch(path.name))]
    clients = {(match["client"].rsplit("-", 1)[0], match["direction"]) for match in kinds}
    named = {"aiokafka", "confluent-kafka", "franz-go", "kafka-clients", "kafka-python", "kafkajs", "sarama"}
    assert {(client, direction) for client in named for direction in ("request", "response")} <= clients
