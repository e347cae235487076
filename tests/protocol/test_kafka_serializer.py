"""What Apache Kafka's own serializer wrote, with the values it was given: every API in every version, both directions.

`tests.protocol.kafka_serializer` makes the files: from 4.3.1, and from 3.9.1 for the versions that KIP-896 took out.
"""

import base64
import re
from pathlib import Path
from typing import Any

import pytest

from protocol import wire
from protocol.apis import BY_NAME, TABLE
from protocol.codec import decode_request, decode_response, encode_request, encode_response
from protocol.schema import Message, Schema
from tests.protocol.kafka_serializer.values import read_cases

FOLDER = Path(__file__).parent / "golden"
CASES = [case for path in sorted(FOLDER.glob("kafka-clients-*.jsonl")) for case in read_cases(path)]


def kafka_name(name: str) -> str:
    """`group_id` as Kafka's JSON has it: `groupId`."""
    return re.sub(r"_([a-z0-9])", lambda match: match[1].upper(), name)


def as_kafka_json(schema: Schema, message: Message, version: int) -> dict[str, Any]:
    """The fields that the version has, by Kafka's names."""
    present = [field for field in schema.fields if field.is_in(version)]
    return {kafka_name(field.name): plain(field.type, getattr(message, field.name), version) for field in present}


def plain(kind: Any, value: Any, version: int) -> Any:
    if value is None:
        return None
    if isinstance(kind, wire.Array):
        return [plain(kind.of, element, version) for element in value]
    if isinstance(kind, wire.Nullable):
        return plain(kind.of, value, version)
    if isinstance(kind, Schema):
        return as_kafka_json(kind, value, version)
    if kind is wire.UUID:
        return base64.urlsafe_b64encode(value).decode().rstrip("=")
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


@pytest.mark.rule("G-010 to G-022 O-309 Q-030 K-010")
@pytest.mark.parametrize("message", sorted({case["message"] for case in CASES}))
def test_we_read_and_write_what_kafka_does(message: str) -> None:
    api = BY_NAME[message.removesuffix("Request").removesuffix("Response")]
    for case in [case for case in CASES if case["message"] == message]:
        version, frame, values = case["version"], bytes.fromhex(case["frame"]), case["values"]
        if message.endswith("Request"):
            request = decode_request(frame)
            assert (request.api_key, request.version, request.client_id) == (api.key, version, "java")
            schema, body, again = api.request, request.body, encode_request(api.key, version, 7, "java", request.body)
        else:
            body = decode_response(api.key, version, frame).body
            schema, again = api.response, encode_response(api.key, version, 7, body)
        assert again[4:] == frame, version
        shown = as_kafka_json(schema, body, version)
        tagged = {kafka_name(field.name) for field in schema.fields if field.tag is not None}
        assert {name: shown[name] for name in shown if name in values or name not in tagged} == values, version


def test_kafka_wrote_every_version_that_we_draw() -> None:
    written = {(case["message"], case["version"]) for case in CASES}
    directions = ("Request", "Response")
    assert {(api.name + way, version) for api in TABLE for way in directions for version in api.versions} == written
