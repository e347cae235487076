"""Each field of a connection has one writer: who wants to know why it changes reads one file."""

import ast
from pathlib import Path
from typing import Final

from hypothesis import example, given, settings
from hypothesis import strategies as st

from coordinator.server.connection import Connection, connections_of
from tests.attributes import writes
from tests.server.in_memory import InMemory

COORDINATOR: Final = Path(__file__).parents[2] / "coordinator"
OWN = "connection"  # the class itself

WRITERS: Final = {
    "authentication": OWN,
    "backlog": OWN,
    "client_id": OWN,
    "closing": OWN,
    "frames": OWN,
    "heard_s": OWN,
    "heartbeat": "request_handler",
    "heavy_until_s": OWN,
    "held": "outbox",
    "held_bytes": "outbox",
    "host": OWN,
    "is_blocked": "frontend",
    "is_muted": "quotas",
    "is_queued": "connections",
    "journal_client": "gate",
    "latest": "encoder",
    "listener": OWN,
    "member": OWN,
    "number": OWN,
    "outgoing": "outbox",
    "outgoing_bytes": "outbox",
    "parked": "connections",
    "port": OWN,
    "principal": "connections",
    "repeated": OWN,
    "repeated_commit": OWN,
    "repeated_produce": OWN,
    "required_sync": "outbox",
}
"""By field, the module of `coordinator/server/` that writes it. Own fields are written by the class alone."""


def test_each_field_has_one_writer() -> None:
    assert set(WRITERS) == {name for name in Connection.__slots__ if not name.startswith("_")}
    found = [
        (path.relative_to(COORDINATOR).as_posix(), field, line)
        for path in sorted(COORDINATOR.rglob("*.py"))
        for _, field, line in writes(ast.parse(path.read_text("utf-8")))
        if field in WRITERS and path.relative_to(COORDINATOR).as_posix() != f"server/{WRITERS[field]}.py"
    ]
    assert not found
    others = {
        field
        for path in sorted((COORDINATOR / "server").rglob("*.py"))
        for _, field, _ in writes(ast.parse(path.read_text("utf-8")))
        if field in WRITERS
    }
    assert others == {field for field, writer in WRITERS.items() if writer != OWN}, "a writer that does not write"


def test_writes_are_found_however_they_are_written() -> None:
    source = """
def f(connection, link):
    connection.closing = True
    link.connection.held_bytes += 1
    a, connection.parked = 1, None
    del connection.latest
    connection.backlog.append(b"")
    queue, other = connection.held, 1
    queue.pop(0)
    self.outgoing = []
    self._outbox.waits[0] = 1
    commit = self.group_commit
    commit.changed.add(1)
"""
    found = [(owner, field) for owner, field, _ in writes(ast.parse(source))]
    assert sorted(found) == [
        ("commit", "changed"),
        ("connection", "backlog"),
        ("connection", "closing"),
        ("connection", "held"),
        ("connection", "held_bytes"),
        ("connection", "latest"),
        ("connection", "parked"),
        ("outbox", "waits"),
    ]


PARTS: Final = frozenset(
    {"authenticator", "connections", "encoder", "frames", "frontend", "gathering", "group_commit", "handler", "loads",
     "long_requests", "outbox", "recorder", "share_states", "throttled", "turn", "unfinished", "watermark"}
)  # fmt: skip
"""The names under which the parts of the server and of the node are known to each other."""

FROM_OUTSIDE: Final = {
    ("connections", "touched"): "server/frontend.py",  # in the loop over all sockets, where a call counts
    ("outbox", "decided"): "server/frontend.py",  # the same
    ("turn", "response_bytes"): "server/outbox.py",  # the same
    ("outbox", "replies"): "server/frontend.py",  # a queue between the two
    ("frames", "limit"): "server/connections.py",  # which `FrameBuffer` allows
    ("encoder", "gate"): "server/frontend.py",  # made with the first journal or fault
    ("handler", "gate"): "server/frontend.py",
}
"""The fields of these parts that another module writes, and which one does."""


def test_a_part_writes_its_own_fields() -> None:
    found = {
        ((owner, field), path.relative_to(COORDINATOR).as_posix())
        for path in sorted(COORDINATOR.rglob("*.py"))
        for owner, field, _ in writes(ast.parse(path.read_text("utf-8")))
        if owner in PARTS
    }
    assert found == set(FROM_OUTSIDE.items())


@settings(max_examples=100, deadline=None, database=None, derandomize=True)
@given(st.lists(st.binary(min_size=1, max_size=30), max_size=8), st.lists(st.integers(1, 40), min_size=1, max_size=40))
@example(frames=[b"one", b"chunk"], cuts=[7, 9])
@example(frames=[b"one", b"chunk"], cuts=[3, 4, 9])
@example(frames=[b"\0\0\0\1x"], cuts=[5, 1, 1, 1, 4])  # the rest of it looks like a whole one
def test_r16_requests_come_out_whole_and_in_order_however_they_are_cut(frames: list[bytes], cuts: list[int]) -> None:
    connection, out = InMemory().connect().connection, list[bytes]()
    wire = b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames)
    while wire:
        size = cuts[len(wire) % len(cuts)]
        out += connection.receive(wire[:size], 1.0)
        wire = wire[size:]
    assert out == frames
    assert not connection.frames.is_held


ANNA, BEN = ("shop", "anna"), ("shop", "ben")


@given(
    peers=st.lists(st.tuples(st.sampled_from((ANNA, BEN, None)), st.sampled_from((None, "", "till")))),
    client_id=st.sampled_from(("", "till")),
)
def test_connections_of_a_member_are_its_own_and_those_that_only_it_can_have(
    peers: list[tuple[tuple[str, str] | None, str | None]], client_id: str
) -> None:
    """Whatever client id a member has told by each of its connections."""
    server, connections = InMemory(), []
    for member, told in peers:
        connection = server.connect().connection
        connection.member, connection.client_id = member, told
        connections.append(connection)
    found = connections_of(ANNA, client_id, connections)
    others_have_it = any(member == BEN and (told or "") == client_id for member, told in peers)
    for connection, (member, told) in zip(connections, peers, strict=True):
        may_be_its = member is None and (told or "") == client_id and not others_have_it
        assert (connection in found) is (member == ANNA or may_be_its)
