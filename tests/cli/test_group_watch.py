"""The live table of groups: its order, its rates, and groups that the user may not see."""

from argparse import Namespace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from coordinator.cli import group_watch as module
from coordinator.cli.group_view import DescribedGroup
from coordinator.cli.group_watch import ROWS_MAX, GroupWatcher
from coordinator.client import ClientError
from coordinator.client.connection import AuthenticationError
from pipeline.history.records import Rebalance

GROUPS = "abc"
ROUND = st.fixed_dictionaries({
    "changes": st.lists(st.tuples(st.sampled_from(GROUPS), st.integers(1, 9), st.sampled_from(["join", "deleted"])), max_size=4),
    "listed": st.sets(st.sampled_from(GROUPS)),
    "lags": st.dictionaries(st.sampled_from(GROUPS), st.none() | st.integers(-2, 9), min_size=1),  # of those that may be described
    "seconds": st.sampled_from([0.0, 2.0, 10.0]),
})  # fmt: skip


class PlayedChanges:
    """The log and the cluster that a watcher sees."""

    def __init__(self, before: list[tuple[str, int, str]]) -> None:
        self.before = [rebalance(*one) for one in before]
        self.coming: list[Rebalance] = []
        self.listed: set[str] = set()
        self.lags: dict[str, int | None] = {}
        self.now_s = 10.0  # below two minutes, all of them
        self.replay = Namespace(name=None)

    def known(self) -> list[Rebalance]:
        return self.before

    def read_changes(self) -> Any:
        while True:
            while self.coming:
                yield self.coming.pop(0)
            yield None

    def list_groups(self, cluster: Any, states: Any, types: Any) -> list[dict[str, Any]]:
        return [{"group": name, "type": "listed", "state": f"of {name}"} for name in self.listed]

    def describe(self, cluster: Any, name: str) -> DescribedGroup | None:
        if name not in self.lags:
            raise ClientError("it is forbidden")
        return DescribedGroup(name, "classic", f"now of {name}", "", None, ())

    def find_positions(self, cluster: Any, group: DescribedGroup) -> list[dict[str, Any]]:
        return [{"lag": self.lags[group.group]}]


def rebalance(group: str, at_ms: int, cause: str) -> Rebalance:
    return Rebalance(group, "classic", 1, at_ms, 0, [cause], "", 0, 1, [], [])


THREE_LOOKS: list[dict[str, Any]] = [
    {"changes": [], "listed": {"a"}, "lags": {"a": lag}, "seconds": 2.0} for lag in (1, 5, 5)
]


@settings(max_examples=40)
@example([], THREE_LOOKS)
@given(
    st.lists(st.tuples(st.sampled_from(GROUPS), st.integers(1, 9), st.just("join")), max_size=3),
    st.lists(ROUND, max_size=6),
)
def test_a_table_has_the_groups_that_rebalanced_last_first_and_how_fast_lags_grow(
    before: list[tuple[str, int, str]], rounds: list[dict[str, Any]]
) -> None:
    played = PlayedChanges(before)
    cluster: Any = None
    times, last, lags = dict[str, int](), dict[str, tuple[int, str]](), dict[str, tuple[float, int]]()
    with pytest.MonkeyPatch.context() as patched:
        reader = Namespace(describe=lambda: Namespace(leaders={0: 1}), close=lambda: None)
        patched.setattr(module, "open_reader", lambda args: reader)
        patched.setattr(module, "Changes", lambda reader, partitions, since: played)
        patched.setattr(module, "list_groups", played.list_groups)
        patched.setattr(module, "describe_group", played.describe)
        patched.setattr(module, "find_positions", played.find_positions)
        patched.setattr(module.timeline, "describe", lambda one, naming: f"at {one.at_ms}")
        patched.setattr(module.time, "monotonic", lambda: played.now_s)
        patched.setattr(module.time, "time", lambda: played.now_s)
        patched.setattr(module, "ROWS_MAX", 2)
        assert ROWS_MAX > 2
        watcher = GroupWatcher(cluster, Namespace(since=None))
        for number, happens in enumerate([{"changes": before, "listed": set(), "lags": {}, "seconds": 0.0}, *rounds]):
            played.coming = [rebalance(*one) for one in happens["changes"]] if number else []
            played.listed, played.lags = happens["listed"], happens["lags"]
            played.now_s += happens["seconds"]
            for name, at_ms, cause in happens["changes"]:
                times[name] = times.get(name, 0) + 1
                last[name] = at_ms, cause
            shown = played.listed | {name for name, (_, cause) in last.items() if cause != "deleted"}
            order = sorted(shown, key=lambda name: (-last.get(name, (0, ""))[0], name))[:2]
            rows = watcher.look()
            assert [row["group"] for row in rows] == order
            for row in rows:
                name = row["group"]
                lag, rate = played.lags.get(name), None
                if lag is not None:
                    lag, beyond = max(lag, 0), 1 if lag < 0 else None
                    if name in lags:
                        at_s, old = lags[name]
                        rate = f"{(lag - old) / max(played.now_s - at_s, 0.001):+.1f}"
                    lags[name] = played.now_s, lag
                else:
                    beyond = None
                is_listed, is_described = name in played.listed, name in played.lags
                assert row == {
                    "group": name,
                    "type": "listed" if is_listed else "classic",
                    "state": f"now of {name}" if is_described else f"of {name}" if is_listed else None,
                    "members": 0 if is_described else None,
                    "lag": lag, "lag_per_s": rate, "beyond_end": beyond, "rebalances": times.get(name, 0),
                    "ago": None if name not in last else f"{played.now_s:.0f} s",
                    "why": None if name not in last else f"at {last[name][0]}",
                }  # fmt: skip


def test_brokers_may_be_away_between_two_tables(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """But not before the first one: an address may be wrong."""
    looks: list[Any] = [[{"group": "a"}], ClientError("it closed the connection"), [], ClientError("again"), []]
    connections: list[Any] = [ClientError("refused"), ClientError("refused"), "second", ClientError("refused"), "third"]
    used, closed, pauses = list[Any](), list[Any](), list[float]()

    def take(outcomes: list[Any]) -> Any:
        if isinstance(outcome := outcomes.pop(0), ClientError):
            raise outcome
        return outcome

    class Watcher:
        def __init__(self, cluster: Any, args: Namespace) -> None:
            self.cluster = cluster
            used.append(cluster)

        def look(self) -> Any:
            return take(looks)

        def close(self) -> None:
            closed.append(self.cluster)

    monkeypatch.setattr(module, "GroupWatcher", Watcher)
    monkeypatch.setattr("coordinator.cli.cluster.Cluster.of", lambda args: take(connections))
    monkeypatch.setattr("time.sleep", pauses.append)
    watch: Any = module.watch_groups  # names stand for clusters
    args = Namespace(count=3, json=True, every=2.0)
    assert watch("first", args) == 0
    assert used == closed == ["first", "second", "third"] and pauses == [2.0] * 7
    printed = capsys.readouterr()
    assert printed.out.count("[") == 3 and not looks and not connections
    assert printed.err.count("trying again") == 2
    looks.append(ClientError("nobody is there"))
    with pytest.raises(ClientError, match="nobody is there"):
        watch("fourth", args)
    assert closed[-1] == "fourth"
    looks.extend([[], ClientError("away")])
    connections.append(AuthenticationError("the password was changed"))
    with pytest.raises(AuthenticationError):
        watch("fifth", args)
