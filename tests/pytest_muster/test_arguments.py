"""Each argument of each method reaches the server, whatever the method asks it for."""

import inspect
import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import pytest
from pytest_muster import Muster, MusterError, plugin, server
from pytest_muster import muster as module
from pytest_muster.admin import Admin
from pytest_muster.muster import Clock, Fault, Group, Member, Records
from pytest_muster.server import find_command

ARGUMENTS: Final[dict[str, Any]] = {
    "ms": 4001, "keep_alive": ["till"], "rate": 2.5, "limit": 53, "reason": "why", "disconnect": True, "count": 59,
    "timeout_ms": 4007, "state": "available", "member": "m-1", "members": {"m-1": {"t": [7]}},
    "standbys": {"m-2": {"u": [9]}}, "at": "join", "client": "c-1", "topic": "orders", "after": 19, "to": 71,
    "load_ms": 23, "lose_last_commits": 29, "keep_members": False, "hits": 31, "group": "shop", "offsets": {3: 37},
    "start": 41, "records": [{"first": 43}], "partition": 17, "broker": 73, "down_ms": 47, "do": {"error": "E"},
    "on": {"api": "A"}, "name": "one", "partitions": 61, "in_order": True,
}  # fmt: skip
NONE: Final[dict[str, Any]] = {"Muster.requests": {"group": None, "client": None}}  # as good as left out
FURTHER: Final = {"wait": {"members": 67}, "fault": {"seed": 79}, "requests": {"api": "B"}, "verify": {}}
EXPECTED: Final = ({"event": "e-1"}, {"event": "e-2"})  # what is verified
MAKES: Final = {
    "Clock": lambda admin: Clock(admin),
    "Member": lambda admin: Member(admin, "shop", "m-9"),
    "Records": lambda admin: Records(admin, "shop", "orders", 17, (11, 13)),
    "Group": lambda admin: Group(admin, "shop"),
    "Fault": lambda admin: Fault(admin, 83),
}
OF_THE_OBJECT: Final = {
    "Member": ("shop", "m-9"), "Records": ("shop", "orders", 17, 11, 13), "Group": ("shop",), "Fault": (83,),
}  # fmt: skip
ONLY_OF_THE_FIRST: Final = {"Records.deliveries": 13}
OF_ITS_OWN: Final = {
    "Records.wait": {12}, "Clock.now_ms": {0}, "Muster.requests": {module.PAGE_MAX}, "Muster.verify": {5}, "Muster.lint": {3},
}  # fmt: skip
"""Numbers that a method asks for without being told: the record between two, no deadline, a page, the last reset's."""
NO_CALLS: Final = {
    "Group.member", "Group.records", "Muster.narrow", "Muster.name", "Muster.group", "Muster.note_given_topics",
    "Muster.remove_leftovers", "Muster.reset", "Muster.timelines", "Muster.groups", "Muster.state",
}  # fmt: skip
"""Methods that ask for nothing by themselves, or for what has no arguments of the caller's."""


class Recorder(Admin):
    """An admin port that keeps what it is asked for."""

    def __init__(self) -> None:
        super().__init__("localhost")
        self.asked: list[str] = []

    def read(self, method: str, path: str, body: Mapping[str, Any] | None = None, wait_s: float = 0.0) -> bytes:
        self.asked.append(f"{method} {unquote(path)} {json.dumps(body)}")
        lists = ("deadlines", "partitions", "deliveries", "events", "brokers", "requests", "findings")
        return json.dumps({name: [] for name in lists} | {"offsets": {}, "number": 1, "hits": 0, "now_ms": 0}).encode()


def make(kind: str) -> tuple[Any, Recorder]:
    admin = Recorder()
    if kind != "Muster":
        return MAKES[kind](admin), admin
    muster = Muster("", "localhost")
    muster.admin = admin
    muster._requests_since, muster._since = 3, 5
    return muster, admin


def methods() -> Iterator[str]:
    for kind in (Clock, Member, Records, Group, Fault, Muster):
        for name, method in vars(kind).items():
            if inspect.isfunction(method) and not name.startswith("_") and f"{kind.__name__}.{name}" not in NO_CALLS:
                yield f"{kind.__name__}.{name}"


def leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from (key, *leaves(inner))
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from leaves(inner)
    else:
        yield value


def arguments_of(method: Callable[..., Any]) -> dict[str, Any]:
    kinds = inspect.signature(method).parameters.values()
    return {one.name: ARGUMENTS[one.name] for one in kinds if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)}


def ask(name: str, **changed: Any) -> str:
    """Return what a method asks the server for, with every argument."""
    kind, _, called = name.partition(".")
    made, admin = make(kind)
    method = getattr(made, called)
    further = FURTHER.get(called, {}) if kind in ("Group", "Muster") else {}
    method(*(EXPECTED if called == "verify" else ()), **{**arguments_of(method), **further, **changed})
    assert admin.asked, name
    return "\n".join(admin.asked)


@pytest.mark.parametrize("name", list(methods()))
def test_each_argument_of_a_method_is_in_what_the_server_is_asked_for(name: str) -> None:
    kind, _, called = name.partition(".")
    asked = ask(name)
    given = arguments_of(getattr(make(kind)[0], called))
    further = FURTHER.get(called, {}) if kind in ("Group", "Muster") else {}
    wanted = list(leaves([list(given.values()), further]))
    wanted += OF_THE_OBJECT.get(kind, ()) + (tuple(leaves(EXPECTED)) if called == "verify" else ())
    for value in wanted:
        if isinstance(value, bool):
            continue
        is_there = re.search(rf"(?<![\w.]){re.escape(str(value))}(?![\w.])", asked)
        assert is_there or ONLY_OF_THE_FIRST.get(name) == value, f"{value} is not in {asked}"
    numbers = {int(one) for one in re.findall(r"(?<![\w.-])\d+(?![\w.])", asked)}
    assert numbers <= {one for one in wanted if isinstance(one, int)} | OF_ITS_OWN.get(name, set()), "and no other"
    for argument, value in given.items():
        if isinstance(value, bool):
            assert ask(name, **{argument: not value}) != asked, argument


@pytest.mark.parametrize("name", [name for name in methods() if name.endswith(".wait")])
def test_a_connection_outlives_what_the_server_waits_for(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By as much as that of a call that waits for nothing: an answer that takes a while is not lost."""
    timeouts: list[float] = []

    def connect(host: str, port: int, timeout: float) -> None:
        timeouts.append(timeout)
        raise MusterError("this is far enough")

    monkeypatch.setattr("pytest_muster.admin.HTTPConnection", connect)
    kind, _, called = name.partition(".")
    made = MAKES[kind](Admin("localhost"))
    waits_ms = (0, 1, 29_999, 30_000, 30_001, 45_000, 300_000)
    for timeout_ms in waits_ms:
        with pytest.raises(MusterError, match="far enough"):
            getattr(made, called)(**{**arguments_of(getattr(made, called)), "timeout_ms": timeout_ms})
    with pytest.raises(MusterError, match="far enough"):
        Admin("localhost").call("GET", "/v1/state")
    *waiting, at_once = timeouts
    assert at_once >= 10
    assert waiting == pytest.approx([at_once + one / 1000 for one in waits_ms])


@pytest.mark.parametrize("name", list(methods()))
def test_an_argument_that_is_left_out_is_neither_in_the_address_nor_in_the_body(name: str) -> None:
    kind, _, called = name.partition(".")
    made, admin = make(kind)
    method = getattr(made, called)
    needed = [one.name for one in inspect.signature(method).parameters.values() if one.default is one.empty]
    method(**{one: ARGUMENTS[one] for one in needed if one in ARGUMENTS}, **NONE.get(name, {}))
    for asked in admin.asked:
        _, path, body = asked.split(" ", 2)
        assert "None" not in path and (body == "null" or "null" not in body)


def test_records_and_members_are_those_that_are_named() -> None:
    _, admin = make("Group")
    group = Group(admin, "shop")
    group.records("orders", 11, 13, partition=17).accept()
    group.records("orders", 11).reject()
    group.member("m-9").kick("why")
    (path, *_), *_ = (line.rsplit(" ", 1) for line in admin.asked)
    assert path.startswith("POST /v1/groups/shop/records ")
    bodies = [json.loads(line.split(" ", 2)[2]) for line in admin.asked]
    where = {"topic": "orders", "first": 11}
    assert bodies[:2] == [
        {**where, "partition": 17, "last": 13, "do": "accept"}, {**where, "partition": 0, "last": 11, "do": "reject"},
    ]  # fmt: skip
    assert "/members/m-9/kick" in admin.asked[2]


class Refusing(Recorder):
    """An admin port that refuses everything with a status."""

    def __init__(self, status: int) -> None:
        super().__init__()
        self._status = status

    def read(self, method: str, path: str, body: Mapping[str, Any] | None = None, wait_s: float = 0.0) -> bytes:
        raise MusterError("no", self._status)


@pytest.mark.parametrize("status", [0, 400, 404, 409, 500])
def test_a_fault_that_is_gone_is_removed_and_any_other_refusal_is_told(status: int) -> None:
    muster, _ = make("Muster")
    muster._faults = [Fault(Refusing(status), 83)]
    with nullcontext() if status == 404 else pytest.raises(MusterError):
        muster._remove_faults()


@pytest.mark.parametrize("places", [(), ("beside",), ("path",), ("beside", "path")])
def test_the_command_is_the_given_one_else_that_beside_this_python_else_that_of_the_path(
    places: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place in ("beside", "path"):
        (tmp_path / place).mkdir()
        if place in places:
            (tmp_path / place / "muster").touch(0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "beside" / "python"))
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    assert find_command("run 'my muster'") == ["run", "my muster"]
    if places:
        assert find_command() == [str(tmp_path / places[0] / "muster")]
    else:
        with pytest.raises(MusterError, match="there is no command muster"):
            find_command()


def test_a_server_that_does_not_end_is_killed_and_one_that_has_not_begun_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "STOP_S", 0.1)
    one = server.Server(tmp_path, command="muster")
    one.stop()
    stubborn = subprocess.Popen(
        ["sh", "-c", "trap '' TERM; echo; exec sleep 60"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert stubborn.stdout is not None and stubborn.stdout.readline() == b"\n"
    one._process = stubborn
    one.stop()
    one.stop()
    assert stubborn.returncode == -signal.SIGKILL
    stubborn.stdout.close()


@pytest.mark.parametrize("size", [0, 1, server.LOG_END, server.LOG_END + 1])
def test_the_end_of_the_log_is_shown(size: int, tmp_path: Path) -> None:
    text = "".join(chr(ord("a") + number % 26) for number in range(size))
    (tmp_path / "muster.log").write_text(text)
    shown = server.Server(tmp_path, command="muster").log()
    assert text.endswith(shown) and len(shown) == min(size, server.LOG_END)


class ToldTimelines:
    """A server whose groups have timelines of so many lines."""

    def __init__(self, lines: Mapping[str, int]) -> None:
        self._lines = lines

    def timelines(self) -> dict[str, str]:
        return {group: "".join(f"{number}\n" for number in range(count)) for group, count in self._lines.items()}


@pytest.mark.parametrize("groups", [0, 1, plugin.TIMELINES_MAX, plugin.TIMELINES_MAX + 2])
@pytest.mark.parametrize("lines", [0, 1, plugin.LINES_MAX, plugin.LINES_MAX + 2])
def test_a_report_has_the_ends_of_the_first_timelines_and_says_what_is_left_out(groups: int, lines: int) -> None:
    told = ToldTimelines({f"g{number}": lines for number in range(groups)})
    sections = list(plugin._timelines(told))  # type: ignore[arg-type]  # all that it asks a server for
    shown = [text.splitlines() for title, text in sections if title != "muster"]
    assert len(shown) == min(groups, plugin.TIMELINES_MAX)
    for text in shown:
        assert [one for one in text if one.isdigit()] == list(map(str, range(lines)))[-plugin.LINES_MAX :]
        assert [one for one in text if not one.isdigit()] == ["(2 earlier events are left out)"] * (
            lines > plugin.LINES_MAX
        )
    left_out = [text for title, text in sections if title == "muster"]
    assert left_out == ["timelines of 2 more groups are left out"] * (groups > plugin.TIMELINES_MAX)


@pytest.mark.parametrize(("since", "after", "asked"), [(91, 0, 91), (91, 99, 99), (0, 19, 19)])
def test_a_timeline_begins_with_the_test(since: int, after: int, asked: int) -> None:
    _, admin = make("Group")
    group = Group(admin, "shop", since)
    group.timeline(after)
    group.timeline_text(after)
    assert [re.findall(r"after=(\d+)", line) for line in admin.asked] == [[str(asked)]] * 2


@pytest.mark.parametrize(("after", "asked"), [(0, 3), (2, 3), (7, 7)])
def test_requests_begin_with_the_test(after: int, asked: int) -> None:
    muster, admin = make("Muster")
    muster.requests(after=after)
    muster.verify(*EXPECTED, after=after)
    assert [re.findall(r"after\W+(\d+)", line) for line in admin.asked] == [[str(asked)]] * 2


@pytest.mark.parametrize(("name", "partitions", "asked"), [
    ("kept", None, None), ("kept", 5, {"kept": 5}), ("new", None, {"gw1-test7-new": 1}), ("new", 5, {"gw1-test7-new": 5}),
])  # fmt: skip
def test_a_topic_of_the_servers_options_is_made_by_nobody_and_compared_if_partitions_are_given(
    name: str, partitions: int | None, asked: dict[str, int] | None
) -> None:
    muster, admin = make("Muster")
    muster.prefix, muster.scope, muster._given = "gw1-", "test7-", {"kept"}
    muster.topic(name, partitions)
    assert [json.loads(one.split(" ", 2)[2])["topics"] for one in admin.asked] == [asked] * (asked is not None)


SHOWN: Final = {
    "gw1-test7-shop": True, "gw1-session0-shop": True, "gw1-shop": True, "gw1-testing": True,
    "gw1-test70-shop": False, "gw1-module2-shop": False, "gw0-test7-shop": False, "test7-shop": False, "shop": False,
}  # fmt: skip
"""By group: whether the report of a test with the prefix `gw1-` and the scope `test7-` shows its timeline."""


@pytest.mark.parametrize("page", range(1, len(SHOWN) + 2))
def test_a_report_shows_groups_of_its_scopes_and_those_that_were_named_without_help(
    page: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    outer = Muster("", "localhost", "gw1-", "session0-")
    muster = outer.narrow("test7-")
    events = [{"number": number, "event": {"group": group}} for number, group in enumerate((*SHOWN, "gw1-shop"), 21)]
    muster._since = 20

    def give(method: str, path: str) -> dict[str, Any]:
        after = int(path.partition("after=")[2])
        return {"events": [one for one in events if one["number"] > after][:page], "latest": 20 + len(events)}

    monkeypatch.setattr(muster.admin, "call", give)
    monkeypatch.setattr(muster, "_timeline", lambda group: f"of {group}")
    assert muster.timelines() == {group: f"of {group}" for group, is_shown in SHOWN.items() if is_shown}


@pytest.mark.parametrize("count", range(9))
def test_all_pages_of_requests_are_read(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = [{"number": 10 + number} for number in range(count)]
    muster, admin = make("Muster")
    monkeypatch.setattr(module, "PAGE_MAX", 3)

    def give(path: str, name: str) -> list[dict[str, int]]:
        after = int(re.search(r"after=(\d+)", path)[1])  # type: ignore[index]  # each request has it
        return [one for one in kept if one["number"] > after][:3]

    monkeypatch.setattr(admin, "read_list", give)
    for after in range(8, 20):
        assert muster.requests(after=after) == [one for one in kept if one["number"] > after]
