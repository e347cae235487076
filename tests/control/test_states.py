"""The state of a server by its control API is what a model of it says, whatever is seeded, reset, kept and restored."""

from copy import deepcopy
from typing import Any, Final
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from coordinator.admin import portions
from storage.memory_files import MemoryFiles
from tests.control.control_port import ControlPort
from tests.control.steered import SteeredNode

TOPICS: Final = ("a-t", "a-kept-t", "ab", "b-t", "c" * 249, "__own")
GROUPS: Final = ("a-g", "a-kept-g", "b-g", "ä-g", "b" * 300)
SHARE_GROUPS: Final = ("a-s", "a-kept-s", "b-s")
PREFIXES: Final = ("a", "a-", "a-k", "b", "ä", "c", "x", "__")
FIRST: Final = {"orders": 2}  # the topics of the start
START: Final = {"topics": FIRST, "offsets": {}, "queues": {}}
_PARTS: Final = {"group": st.sampled_from(GROUPS), "topic": st.sampled_from(TOPICS)}
NAMED: Final = st.fixed_dictionaries(_PARTS) | st.fixed_dictionaries({}, optional=_PARTS)  # what a fault is about
OFFSETS: Final = st.sampled_from((0, 1, 5, 2**63 - 1))

Model = dict[str, Any]


@st.composite
def queues(draw: st.DrawFn) -> Model:
    """A queue of a share group: runs of records behind its start, some of them side by side."""
    start = at = draw(st.integers(0, 9))
    records = []
    for _ in range(draw(st.integers(0, 3))):
        first = at + draw(st.integers(0, 2))
        last = first + draw(st.integers(0, 2))
        what = {
            "state": draw(st.sampled_from(("available", "acknowledged", "archived"))),
            "deliveries": draw(st.integers(1, 4)),
        }
        if records and first == at and records[-1].items() >= what.items():
            continue  # they would be one run
        records.append({"first": first, "last": last, **what})
        at = last + 1
    return {"start": start, "records": records}


@st.composite
def seeds(draw: st.DrawFn, model: Model) -> Model:
    """A state that fits to the topics that there are, and some others."""
    made = draw(st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 3), max_size=3))
    topics = {**made, **model["topics"]}
    places = st.sampled_from([(topic, str(index)) for topic, count in topics.items() for index in range(count)])
    seeded: Model = {"topics": {name: topics[name] for name in made}, "offsets": {}, "queues": {}}
    for part, names, values in (("offsets", GROUPS, OFFSETS), ("queues", SHARE_GROUPS, queues())):
        for name in draw(st.lists(st.sampled_from(names), max_size=2, unique=True)):
            for topic, index in draw(st.lists(places, min_size=1, max_size=3, unique=True)):
                seeded[part].setdefault(name, {}).setdefault(topic, {})[index] = draw(values)
    return seeded


def merge(model: Model, seeded: Model) -> None:
    model["topics"].update(seeded["topics"])
    for part in ("offsets", "queues"):
        for name, by_topic in seeded[part].items():
            for topic, of in by_topic.items():
                model[part].setdefault(name, {}).setdefault(topic, {}).update(of)


def remove(model: Model, is_meant: Any) -> None:
    """Remove the groups and topics of some names, and what groups had of these topics."""
    model["topics"] = {name: count for name, count in model["topics"].items() if not is_meant(name)}
    for part in ("offsets", "queues"):
        left = {
            name: {topic: of for topic, of in by_topic.items() if topic in model["topics"]}
            for name, by_topic in model[part].items()
            if not is_meant(name)
        }
        model[part] = {name: by_topic for name, by_topic in left.items() if by_topic}


def see(model: Model, prefix: str) -> Model:
    """Return what `GET /v1/state` has of the names with a prefix."""
    seen = {part: {name: of for name, of in model[part].items() if name.startswith(prefix)} for part in model}
    if not seen["queues"]:
        del seen["queues"]
    return seen


class Play:
    """A server and the model, to which the same things happen."""

    def __init__(self) -> None:
        self.files = MemoryFiles()
        self.model: Model = deepcopy(START)
        self.snapshots: dict[str, Model] = {}
        self.starts = 0
        self.start()

    def start(self) -> None:
        """Start a server with what the files hold: what is in memory alone is gone."""
        self.starts += 1
        self.server = SteeredNode(
            files=self.files, topics=FIRST, offsets_topic_num_partitions=3, virtual_brokers=2, seed=self.starts
        )
        self.port = ControlPort(self.server)
        self.snapshots.clear()

    def group_names(self) -> list[str]:
        return [one["group"] for one in self.call("GET", "/groups")["groups"]]

    def call(self, method: str, target: str, body: Any = None) -> Any:
        status, answer = self.port.call(method, target, body)
        assert status == 200, answer
        return answer

    def do(self, what: str, data: st.DataObject) -> None:
        """Do something, and to the model what it should lead to."""
        model, snapshots = self.model, self.snapshots
        prefix = data.draw(st.sampled_from(PREFIXES))
        if what == "seed":
            seeded = data.draw(seeds(model))
            merge(model, seeded)
            assert self.call("POST", "/state", seeded) == see(model, "")
        elif what == "reset a prefix":
            keep = data.draw(st.lists(st.sampled_from(PREFIXES), max_size=2))

            def is_meant(name: str) -> bool:
                return name.startswith(prefix) and not name.startswith(tuple(keep))

            count = {"groups": sum(map(is_meant, self.group_names())), "topics": sum(map(is_meant, model["topics"]))}
            named = {}
            for on in data.draw(st.lists(NAMED, min_size=1, max_size=3)):
                named[self.call("POST", "/faults", {"do": {"hold": True}, "on": on})["number"]] = on
            assert self.call("POST", "/reset", {"prefix": prefix, "keep": keep}) == count
            remove(model, is_meant)
            left = [number for number, on in named.items() if not any(map(is_meant, on.values()))]
            assert [one["number"] for one in self.call("GET", "/faults")["faults"]] == left
            self.call("DELETE", "/faults")
        elif what == "reset":
            self.disturb(data)
            count = {"groups": len(self.group_names()), "topics": len(model["topics"])}
            assert self.call("POST", "/reset") == count
            self.model = deepcopy(START)
            self.check_calm()
        elif what == "take a snapshot":
            name = data.draw(st.sampled_from(("one", "zwei ä")))
            snapshots[name] = deepcopy(model)
            kept = self.call("PUT", f"/snapshots/{quote(name)}")["snapshots"]
            assert list(kept) == sorted(snapshots) and all(size > 0 for size in kept.values())
        elif what == "restore" and snapshots:
            self.disturb(data)
            name = data.draw(st.sampled_from(sorted(snapshots)))
            assert list(self.call("POST", f"/snapshots/{quote(name)}/restore")["snapshots"]) == sorted(snapshots)
            self.model = deepcopy(snapshots[name])
            self.check_calm()
        elif what == "remove a snapshot" and snapshots:
            name = data.draw(st.sampled_from(sorted(snapshots)))
            del snapshots[name]
            assert list(self.call("DELETE", f"/snapshots/{quote(name)}")["snapshots"]) == sorted(snapshots)
        elif what == "remove a group" and (names := self.group_names()):
            name = data.draw(st.sampled_from(names))
            assert self.call("DELETE", f"/groups/{quote(name)}") == {"groups": 1, "topics": 0}
            for part in ("offsets", "queues"):
                model[part].pop(name, None)
        elif what == "remove groups":
            names = [name for name in self.group_names() if name.startswith(prefix)]
            assert self.call("DELETE", f"/groups?prefix={quote(prefix)}")["groups"] == len(names)
            for name in names:
                model["offsets"].pop(name, None)
                model["queues"].pop(name, None)
        elif what == "move":
            name = data.draw(st.sampled_from((*GROUPS, *SHARE_GROUPS)))
            to = data.draw(st.integers(0, 1))
            self.call("POST", f"/coordinators/{quote(name)}/move", {"to": to})
            self.call("POST", "/wait", {"group": name, "coordinator": to, "exists": name in self.group_names()})
        elif what == "start again":
            self.start()

    def disturb(self, data: st.DataObject) -> None:
        """Have faults, a scenario and a clock that stands still, which a reset ends."""
        told = self.call("PUT", "/clock", {"mode": data.draw(st.sampled_from(("frozen", "real")))})
        seen = self.call("GET", "/clock")
        assert told["deadlines"] and {**told, "now_ms": 0} == {**seen, "now_ms": 0}
        for _ in range(data.draw(st.integers(0, 2))):
            self.call("POST", "/faults", {"do": {"hold": True}, "on": {"api": "JoinGroup"}})
        step = {"after": {"group": "never"}, "verb": {"rebalance": True}}
        self.scenario = self.call("POST", "/scenarios", {"steps": [step]})["number"]

    def check_calm(self) -> None:
        assert self.call("GET", "/faults") == {"faults": []}
        assert self.port.call("GET", f"/scenarios/{self.scenario}").status == 404
        assert self.call("GET", "/clock")["mode"] == "real"
        assert not self.server.frontend.handler.is_gated

    def check(self, *prefixes: str) -> None:
        """Compare all that can be asked of the state, and what can be asked of some prefixes."""
        for prefix in ("", *prefixes):
            assert self.call("GET", f"/state?prefix={quote(prefix)}") == {"offsets": {}, **see(self.model, prefix)}
        views = {one["group"]: one["offsets"] for one in self.call("GET", "/groups")["groups"]}
        for name, offsets in self.model["offsets"].items():
            assert views[name] == offsets, name
        assert set(views) >= set(self.model["queues"])
        assert list(self.call("GET", "/snapshots")["snapshots"]) == sorted(self.snapshots)


WHAT: Final = (
    "seed", "seed", "seed", "reset a prefix", "reset a prefix", "reset", "take a snapshot", "restore", "restore",
    "remove a snapshot", "remove a group", "remove groups", "move", "start again",
)  # fmt: skip


@given(st.lists(st.sampled_from(WHAT), min_size=3, max_size=10), st.data())
@settings(max_examples=12, phases=[Phase.generate], suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_state_is_what_was_done_to_it(
    monkeypatch: pytest.MonkeyPatch, everything: list[str], data: st.DataObject
) -> None:
    monkeypatch.setattr(portions, "TOPICS_MAX", 2)
    monkeypatch.setattr(portions, "OFFSETS_MAX", 2)
    served = Play()
    for what in ("seed", *everything):
        served.do(what, data)
        served.check(data.draw(st.sampled_from(PREFIXES)))
    served.start()
    served.check(*PREFIXES)


@pytest.mark.parametrize("part", ["offsets", "queues"])
def test_a_group_that_no_record_can_name_is_refused(part: str) -> None:
    """Its letters are few enough, and its bytes are not."""
    value = 1 if part == "offsets" else {"start": 1}
    answer = ControlPort(SteeredNode(topics=FIRST)).call(
        "POST", "/state", {part: {"ä" * 16_384: {"orders": {"0": value}}}}
    )
    assert answer == (400, {"error": "invalid group of 16384 letters: expected 32767 bytes at most"})
