"""Each kind of groups goes by settings of its own, also after a start: most of them have the same default."""

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from coordinator.core import kinds
from protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.members import ConsumerMember, StreamsMember
from tests.server.in_memory import InMemory, Peer

FOLDER: Final = Path(str(kinds.__path__[0]))
OF_EPOCHS: Final = ("consumer", "share", "streams")
DIFFERENT: Final = {
    f"group_{kind}_{name}": least + 1_000 * at
    for name, least in (("session_timeout_ms", 50_000), ("heartbeat_interval_ms", 5_000))
    for at, kind in enumerate(OF_EPOCHS)
}


def beat_share_member(peer: Peer) -> Any:
    return peer.ask(ShareGroupHeartbeatRequest("g", "m".ljust(22, "-"), 0, None, ("orders",)), 1)


BEAT: Final[dict[str, Callable[[Peer], Any]]] = {
    "consumer": lambda peer: ConsumerMember(peer, "m").beat(),
    "share": beat_share_member,
    "streams": lambda peer: StreamsMember(peer, "m", "g").beat(),
}


def wait_for_event(server: InMemory) -> float:
    """Return after how many seconds something happens to a group."""
    seconds, before = server.seconds, len(server.events)
    while len(server.events) == before and server.seconds < seconds + 100:
        server.advance(0.25)
    return server.seconds - seconds


@pytest.mark.parametrize("kind", OF_EPOCHS)
def test_a_session_is_as_long_as_its_kind_says_and_a_start_gives_a_whole_one(kind: str) -> None:
    server = InMemory(topics={"orders": 1, "lines": 1}, group_streams_initial_rebalance_delay_ms=0, **DIFFERENT)
    session_s = DIFFERENT[f"group_{kind}_session_timeout_ms"] / 1000
    answer = BEAT[kind](server.connect())
    assert answer.error_code == 0
    assert answer.heartbeat_interval_ms == DIFFERENT[f"group_{kind}_heartbeat_interval_ms"]
    server.rest()
    server.advance(20)
    server.node.close()
    again = InMemory(server.files, **DIFFERENT)
    assert wait_for_event(again) == pytest.approx(session_s, abs=0.5)
    assert again.events[-1].cause.value == "session_expired"


@pytest.mark.parametrize("kind", OF_EPOCHS)
def test_no_kind_reads_the_settings_of_another_one(kind: str) -> None:
    foreign = tuple(f"group_{other}_" for other in OF_EPOCHS if other != kind)
    names = {
        node.attr
        for path in (FOLDER / kind).glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute)
    }
    assert any(name.startswith(f"group_{kind}_") for name in names)
    assert not [name for name in names if name.startswith(foreign)]
