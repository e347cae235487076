"""A sample of the largest requests: each is answered, and holds no more memory than it may. `python -m tests.worst` measures all of them."""

import random

import pytest

from protocol.apis import TABLE
from protocol.wire import Array
from tests.worst.server import SMALL, WorstServer
from tests.worst.shapes import shapes

ALL_BYTES = 256 << 20
SAMPLE = 8
SEED = 20


@pytest.fixture(scope="module")
def server() -> WorstServer:
    return WorstServer(SMALL)


def test_every_request_that_has_an_array_has_shapes() -> None:
    filled = {(shape.api.key, shape.version) for shape in shapes()}
    for api in TABLE:
        for version in api.kafka_4_3 or ():
            fields = [field for field in api.request.fields if field.is_in(version)]
            if any(isinstance(field.type, Array) for field in fields):
                assert (api.key, version) in filled, f"{api.name} {version}"


@pytest.mark.parametrize("number", range(SAMPLE))
def test_the_largest_request_of_a_shape_is_bounded(server: WorstServer, number: int) -> None:
    newest = [shape for shape in shapes() if shape.version == (shape.api.kafka_4_3 or (0,))[-1]]
    shape = random.Random(SEED).sample(newest, SAMPLE)[number]
    cost = server.measure(shape)
    assert cost is None or cost.all_bytes < ALL_BYTES, shape.name
