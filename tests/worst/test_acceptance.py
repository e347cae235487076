"""The largest requests are not refused before anybody looks at what is large: of each array of each API one is taken."""

from collections import Counter
from functools import partial

import pytest

from protocol.codec import decode_request, encode_request
from protocol.error_codes import error_walker
from protocol.errors import ErrorCode
from tests.worst.acceptance import REFUSED
from tests.worst.growth import in_a_copy
from tests.worst.server import SMALL, WorstServer
from tests.worst.shapes import Shape, shapes

NEWEST = [
    shape
    for shape in shapes()
    if shape.filling == "different" and shape.version == (shape.api.kafka_4_3 or (0,))[-1]
]  # fmt: skip

ONE_BY_ONE = {"NONE", "ELECTION_NOT_NEEDED", "GROUP_ID_NOT_FOUND", "RESOURCE_NOT_FOUND", "UNKNOWN_TOPIC_OR_PARTITION"}
"""Answers about single elements, each of which was looked at."""


@pytest.fixture(scope="module")
def server() -> WorstServer:
    return WorstServer(SMALL)


def why_not(shape: Shape) -> str | None:
    """Why a shape is not taken, if there is a reason for it."""
    name = f"{shape.api.name} {'.'.join(shape.path)}"
    return next(
        (
            reason
            for begins, reason in REFUSED.items()
            if name == begins or name.startswith((f"{begins} ", f"{begins}."))
        ),
        None,
    )


def codes_of(server: WorstServer, shape: Shape) -> Counter[str] | None:
    """The codes in the response to three elements, None while it waits for something."""
    data = encode_request(shape.api.key, shape.version, 1, "c", shape.request(3, server.names(shape)))[4:]
    response = server.ask(shape.api.key, shape.version, decode_request(data).body)
    if response is None:
        return None
    return Counter(ErrorCode(code).name for code in error_walker(type(response))(response))


def test_a_request_that_fills_an_array_is_taken(server: WorstServer) -> None:
    wrong = {}
    for shape in NEWEST:
        codes = in_a_copy(partial(codes_of, server, shape))
        is_taken = not codes or codes.keys() <= ONE_BY_ONE
        if is_taken != (why_not(shape) is None):
            wrong[shape.name] = codes
    assert wrong == {}


def test_each_reason_is_of_an_array() -> None:
    assert {why_not(shape) for shape in NEWEST} - {None} == set(REFUSED.values())
