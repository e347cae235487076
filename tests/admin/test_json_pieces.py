"""Long results are made JSON in pieces, which are the same as at once."""

from typing import Any

import msgspec
import pytest
from msgspec import UNSET, Struct, UnsetType

from coordinator.admin.http import Pieces, Request, Response
from coordinator.admin.json_pieces import ENTRIES, encode_in_pieces, is_long
from coordinator.admin.operations import Operation, add_operations
from coordinator.admin.router import Router

COUNTS = (0, 1, ENTRIES, ENTRIES + 1, 2 * ENTRIES, 3 * ENTRIES + 7)


class Found(Struct, frozen=True, rename={"last": "the last"}):
    names: list[Any]
    by_name: dict[str, Any] = {}
    more: dict[str, int] | UnsetType = UNSET
    last: str | None = None


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("others", COUNTS)
def test_pieces_are_the_whole(count: int, others: int) -> None:
    entries = {f'n"{number}': {"é": [number, None]} for number in range(count)}
    for found in (
        Found(list(entries.values()), dict.fromkeys(map(str, range(others))), {"a": 1}, "x"),
        Found(list(range(others)), entries),
    ):
        pieces = list(encode_in_pieces(found))
        assert b"".join(pieces) == msgspec.json.encode(found)
        assert is_long(found) == (max(count, others) > ENTRIES)
        assert all(len(piece) < 40 * ENTRIES for piece in pieces)


@pytest.mark.parametrize("count", COUNTS)
async def test_an_operation_answers_the_same_either_way(count: int) -> None:
    router, found = Router(), Found(list(range(count)))
    add_operations(router, [Operation("GET", "/v1/found", "", lambda given: found, result=Found)])
    answer = await router(Request("GET", "/v1/found", "", {}, b""))
    if isinstance(answer, Response):
        body = answer.body
    else:
        assert isinstance(answer, Pieces) and answer.content_type == "application/json"
        body = b""
        while (piece := await answer.next_chunk()) is not None:
            body += piece
    assert body == msgspec.json.encode(found) + b"\n"
    assert isinstance(answer, Pieces) == is_long(found)


def test_what_is_no_struct_is_short() -> None:
    assert not is_long([0] * 10_000) and not is_long("x" * 10_000)
