"""A server as a test steers it. Every method is one call of the control API; answers are its JSON.

group = muster.group("billing")
group.wait(state="Stable", members=2)
group.expire("consumer-a")
muster.clock.advance(45_000)
muster.verify({"api": "OffsetCommit", "group": group.id, "times": 1})
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pytest_muster.admin import Admin, ExpectationError, Json, MusterError, path_of

KeepAlive = Literal["all", "connected", "none"] | Sequence[str]
WAIT_MS = 10_000
SCOPED = re.compile(r"(test|module|session)\d+-")
PAGE_MAX = 1_000  # requests that the server gives at a time
RESTART_S = 300.0  # that the brokers may take to load all that they coordinate, beside the time that they are down
__tracebackhide__ = True  # pytest shows the line of the test that made the call, and the sentence


class Clock:
    """The coordinator's clock: sessions, rebalance timeouts, retention. Clients have clocks of their own."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin
        self.is_set = False
        """Whether it was stopped, or got another rate, by this object, and does not run as usual since."""

    def now_ms(self) -> int:
        """Return the time by the clock."""
        return int(self._admin.call("GET", path_of("clock", limit=0))["now_ms"])

    def deadlines(self, limit: int = 100) -> list[Json]:
        """Return the timers that are pending, the next one first."""
        return self._admin.read_list(path_of("clock", limit=limit), "deadlines")

    def advance(self, ms: int, keep_alive: KeepAlive = "none") -> Json:
        """Move the clock forward, from deadline to deadline. Returns what has `fired`.

        The sessions of the members in `keep_alive` are renewed on the way: by client id, instance id or member id, or
        `connected`, or `all`.
        """
        return self._post("advance", {"ms": ms, "keep_alive": _list(keep_alive)})

    def step(self, keep_alive: KeepAlive = "none") -> Json:
        """Move the clock to the next deadline. Returns what has `fired`."""
        return self._post("step", {"keep_alive": _list(keep_alive)})

    def freeze(self) -> None:
        """Stop the clock. It moves by `advance` and `step` alone."""
        self._admin.call("PUT", path_of("clock"), {"mode": "frozen"})
        self.is_set = True

    def run(self, rate: float = 1.0) -> None:
        """Let the clock run, `rate` times as fast as the real one."""
        body: Json = {"mode": "real"} if rate == 1.0 else {"mode": "rate", "rate": rate}
        self._admin.call("PUT", path_of("clock"), body)
        self.is_set = rate != 1.0

    def _post(self, verb: str, body: Json) -> Json:
        return self._admin.call("POST", path_of("clock", verb), body)


class Member:
    """A member of a group, by its client id, instance id or member id."""

    def __init__(self, admin: Admin, group_id: str, name: str) -> None:
        self._admin = admin
        self._path = ("groups", group_id, "members", name)

    def expire(self, reason: str = "", *, disconnect: bool = False) -> Json:
        """Let the session expire now. The member learns of it at its next request, or by a closed connection."""
        return self._post("expire", {"reason": reason, "disconnect": disconnect})

    def kick(self, reason: str = "", *, disconnect: bool = False) -> Json:
        """Remove the member, as a LeaveGroup would."""
        return self._post("kick", {"reason": reason, "disconnect": disconnect})

    def fence(self) -> Json:
        """Fence the member: its next request is answered with an error that it cannot recover from as this member."""
        return self._post("fence")

    def _post(self, verb: str, body: Json | None = None) -> Json:
        return self._admin.call("POST", path_of(*self._path, verb), body)


class Records:
    """Records of one partition as a share group has them: one, or all from the first offset to the last one."""

    def __init__(self, admin: Admin, group_id: str, topic: str, partition: int, offsets: tuple[int, int]) -> None:
        self._admin = admin
        self._group_id = group_id
        self._topic, self._partition = topic, partition
        self._first, self._last = offsets

    def expire(self) -> Json:
        """Let their lock end now: they are available again, or archived after the last delivery."""
        return self._post({"do": "expire"})

    def release(self) -> Json:
        """Give them back, as their member could."""
        return self._post({"do": "release"})

    def accept(self) -> Json:
        """Accept them: nobody gets them again."""
        return self._post({"do": "accept"})

    def reject(self) -> Json:
        """Archive them: nobody gets them again."""
        return self._post({"do": "reject"})

    def set_deliveries(self, count: int) -> Json:
        """Have them count as delivered so often."""
        return self._post({"deliveries": count})

    def wait(self, state: str, timeout_ms: int = WAIT_MS) -> None:
        """Wait until all are in a state. Raises ExpectationError.

        `new` (never delivered), `acquired`, `available` (again), `acknowledged`, `archived`, or `done` (before all that
        is in flight).
        """
        states = {str(offset): state for offset in range(self._first, self._last + 1)}
        records = {self._topic: {str(self._partition): states}}
        _wait(self._admin, {"group": self._group_id, "records": records}, timeout_ms)

    def deliveries(self) -> list[Json]:
        """Return who has got the first of them, and when: `client`, `at_ms`, `count`. Needs the journal."""
        where = {"topic": self._topic, "partition": self._partition, "offset": self._first}
        return self._admin.read_list(path_of("groups", self._group_id, "records", "deliveries", **where), "deliveries")

    def _post(self, what: Json) -> Json:
        where = {"topic": self._topic, "partition": self._partition, "first": self._first, "last": self._last}
        return self._admin.call("POST", path_of("groups", self._group_id, "records"), {**where, **what})


Target = Mapping[str, Mapping[str, Sequence[int]]]


class Group:
    """A group, by its id on the server."""

    def __init__(self, admin: Admin, group_id: str, since: int = 0) -> None:
        """`since`: the number of the latest event of before, where the timeline begins."""
        self._admin = admin
        self._since = since
        self.id = group_id

    def __str__(self) -> str:
        return self.id

    def describe(self) -> Json:
        """Return the group: state, generation, members with their assignments, committed offsets."""
        return self._admin.call("GET", path_of("groups", self.id))

    def offsets(self) -> dict[str, dict[int, int]]:
        """Return the committed offsets by topic and partition."""
        by_topic: dict[str, dict[str, int]] = self.describe()["offsets"]
        return {topic: {int(index): offset for index, offset in of.items()} for topic, of in by_topic.items()}

    def wait(self, *, timeout_ms: int = WAIT_MS, **expected: Any) -> Json:
        """Wait until everything holds that is given, and return the group. Raises ExpectationError.

        `state="Stable"`, `members=2`, `generation=1`, `assigned={"client": {"topic": [0, 1]}}`,
        `tasks={"client": {"active": ["0_1"]}}` of a streams group, `offsets={"topic": {0: 5}}`,
        `exists=False`; a number may be a range, `{"gte": 1, "lte": 3}`.
        """
        return _wait(self._admin, {"group": self.id, **expected}, timeout_ms)

    def member(self, name: str) -> Member:
        """Return the member of that client id, instance id or member id."""
        return Member(self._admin, self.id, name)

    def expire(self, member: str, reason: str = "", *, disconnect: bool = False) -> Json:
        """Let a member's session expire now."""
        return self.member(member).expire(reason, disconnect=disconnect)

    def kick(self, member: str, reason: str = "", *, disconnect: bool = False) -> Json:
        """Remove a member."""
        return self.member(member).kick(reason, disconnect=disconnect)

    def fence(self, member: str) -> Json:
        """Fence a member."""
        return self.member(member).fence()

    def rebalance(self, reason: str = "") -> Json:
        """Make the members join again."""
        return self._post("rebalance", {"reason": reason})

    def set_target(self, members: Target, standbys: Target | None = None) -> Json:
        """Force what each member of a consumer or share group shall own: by member, and by topic.

        Of a streams group: active tasks, and `standbys`, by subtopology.
        """
        body = {"members": members} | ({} if standbys is None else {"standbys": standbys})
        return self._admin.call("PUT", path_of("groups", self.id, "target"), body)

    def hold(self, at: str, client: str = "") -> Json:
        """Park the requests of the group at a step of its protocol.

        `join`, `sync`, `assignment`, `commit`, `heartbeat`; of share groups `acquire` or `acknowledge`.
        """
        return self._post("hold", {"at": at, "client": client})

    def release(self) -> Json:
        """Decide what is held."""
        return self._post("release")

    def in_flight(self, topic: str = "") -> list[Json]:
        """Return what a share group has in flight: partitions with runs of `records`, and who has acquired them."""
        return self._admin.read_list(path_of("groups", self.id, "records", topic=topic), "partitions")

    def records(self, topic: str, first: int, last: int | None = None, *, partition: int = 0) -> Records:
        """Return one record of a topic, or all up to the last one. `topic` is the name that clients use."""
        return Records(self._admin, self.id, topic, partition, (first, first if last is None else last))

    def timeline(self, after: int = 0) -> list[Json]:
        """Return what happened to the group since the last reset, and why, as data."""
        return self._admin.read_list(self._timeline("json", after), "events")

    def timeline_text(self, after: int = 0) -> str:
        """Return what happened to the group since the last reset, and why, one line each."""
        return self._admin.read("GET", self._timeline("text", after)).decode()

    def coordinator(self) -> Json:
        """Return the broker that coordinates the group, and whether it is still loading."""
        return self._admin.call("GET", path_of("coordinators", self.id))

    def move(self, to: int, *, load_ms: int = 0, lose_last_commits: int = 0, keep_members: bool = True) -> Json:
        """Let another broker coordinate the group. `wait(coordinator=to)` returns when it has loaded it."""
        body = {"to": to, "load_ms": load_ms, "lose_last_commits": lose_last_commits, "keep_members": keep_members}
        return self._admin.call("POST", path_of("coordinators", self.id, "move"), body)

    def forget(self) -> None:
        """Remove the group, whatever its state."""
        self._admin.call("DELETE", path_of("groups", self.id))

    def _timeline(self, form: str, after: int) -> str:
        return path_of("groups", self.id, "timeline", format=form, after=max(after, self._since))

    def _post(self, verb: str, body: Json | None = None) -> Json:
        return self._admin.call("POST", path_of("groups", self.id, verb), body)


class Fault:
    """A fault in force."""

    def __init__(self, admin: Admin, number: int) -> None:
        self._admin = admin
        self.number = number

    @property
    def hits(self) -> int:
        """How many requests it has met."""
        return int(self._admin.call("GET", path_of("faults", str(self.number)))["hits"])

    def wait(self, hits: int = 1, timeout_ms: int = WAIT_MS) -> None:
        """Wait until it has met so many requests. Raises ExpectationError."""
        _wait(self._admin, {"fault": self.number, "hits": hits}, timeout_ms)

    def remove(self) -> None:
        """End it. What it holds is decided."""
        self._admin.call("DELETE", path_of("faults", str(self.number)))


class Muster:
    """A server. `prefix` begins the names of groups and topics of this run, `scope` after it those of one test.

    `bootstrap` is the address for Kafka clients; "" stands for port 9092 of the host of `admin`.
    """

    def __init__(self, bootstrap: str, admin: str, prefix: str = "", scope: str = "") -> None:
        self.admin = Admin(admin)
        self.bootstrap = bootstrap or f"{self.admin.host}:9092"
        self.prefix = prefix
        self.scope = scope
        self.clock = Clock(self.admin)
        self._since = 0  # the number of the latest event before the test
        self._requests_since = 0  # and that of the latest request
        self._faults: list[Fault] = []
        self._given: set[str] = set()  # topics of the server's own options: one set of all scopes
        self._kept: list[str] = []  # beginnings of names that a reset leaves alone: those of wider scopes

    def narrow(self, scope: str) -> "Muster":
        """Return the same server for a narrower scope, such as one test: its resets leave this one's names alone."""
        inner = Muster(self.bootstrap, self.admin.url, self.prefix, scope)
        inner._given = self._given
        inner._kept = [*self._kept, *([self.prefix + self.scope] if self.scope else [])]
        return inner

    def name(self, name: str) -> str:
        """Return a name for a group or a topic that no other worker and no other test uses.

        What is such a name already stays as it is, and so do the topics of the server's options.
        """
        if name in self._given or name.startswith((*self._kept, self.prefix + self.scope)):
            return name
        return f"{self.prefix}{self.scope}{name}"

    def group(self, name: str) -> Group:
        """Return the group of that name, whether it exists or not. Clients give its `id` as group.id."""
        return Group(self.admin, self.name(name), self._since)

    def groups(self) -> list[Json]:
        """Return all groups of this run."""
        return self.admin.read_list(path_of("groups", prefix=self.prefix), "groups")

    def topic(self, name: str, partitions: int | None = None) -> str:
        """Create a topic, of one partition if it is not said. Returns its name for clients.

        One that exists with another number of partitions is refused; one of the server's options is what it is.
        """
        full_name = self.name(name)
        if partitions is not None or full_name not in self._given:
            self.admin.call("POST", path_of("state"), {"topics": {full_name: 1 if partitions is None else partitions}})
        return full_name

    def commit(self, group: str | Group, topic: str, offsets: Mapping[int, int]) -> None:
        """Commit offsets, by partition, for a group without members: the state that a test begins with.

        Group and topic may be what `group` and `topic` have returned, or their names.
        """
        by_partition = {str(partition): offset for partition, offset in offsets.items()}
        self.admin.call(
            "POST", path_of("state"), {"offsets": {self.name(str(group)): {self.name(topic): by_partition}}}
        )

    def set_queue(
        self, group: str | Group, topic: str, start: int, records: Sequence[Mapping[str, Any]] = (), partition: int = 0
    ) -> None:
        """Give a share group without members a half-processed queue: what is before `start` is done.

        `records=[{"first": 5, "last": 6, "state": "archived", "deliveries": 5}]` are runs of records behind it, of
        which the state is `available`, `acknowledged` or `archived`. Needs records in the topic only when it is read.
        """
        queue = {"start": start, "records": list(records)}
        body = {"queues": {self.name(str(group)): {self.name(topic): {str(partition): queue}}}}
        self.admin.call("POST", path_of("state"), body)

    def state(self) -> Json:
        """Return topics and offsets of this run: what `POST /v1/state` takes."""
        return self.admin.call("GET", path_of("state", prefix=self.prefix))

    def brokers(self) -> list[Json]:
        """Return all brokers: there are several with `--brokers` among the options of the server."""
        return self.admin.read_list(path_of("brokers"), "brokers")

    def stop_broker(self, broker: int) -> None:
        """Let the others coordinate what a broker has coordinated, and let nobody connect to it."""
        self.admin.call("POST", path_of("brokers", str(broker), "stop"))

    def start_broker(self, broker: int) -> None:
        """Let clients connect to a broker again."""
        self.admin.call("POST", path_of("brokers", str(broker), "start"))

    def restart_brokers(self, down_ms: int = 0) -> None:
        """Restart all brokers one after the other, each down for so long."""
        wait_s = RESTART_S + len(self.brokers()) * down_ms / 1000
        self.admin.call("POST", path_of("brokers", "rolling-restart"), {"down_ms": down_ms}, wait_s=wait_s)

    def fault(self, do: Mapping[str, Any], on: Mapping[str, Any] | None = None, **more: Any) -> Fault:
        """Put a fault into force: `do={"error": "NOT_COORDINATOR"}, on={"api": "OffsetCommit", "group": group.id}`.

        `count`, `probability` and `seed` may be given; a fault meets one request unless `count` says otherwise.
        """
        answer = self.admin.call("POST", path_of("faults"), {"do": do, "on": on or {}, **more})
        self._faults.append(Fault(self.admin, int(answer["number"])))
        return self._faults[-1]

    def requests(self, *, after: int = 0, **wanted: Any) -> list[Json]:
        """Return the requests since the last reset, decoded, oldest first: by `api`, `group`, `topic`, `client`.

        `after` is a number: only requests with higher ones are given.
        """
        found: list[Json] = []
        latest = max(after, self._requests_since)
        while True:
            path = path_of("requests", after=found[-1]["number"] if found else latest, limit=PAGE_MAX, **wanted)
            page = self.admin.read_list(path, "requests")
            found += page
            if len(page) < PAGE_MAX:
                return found

    def verify(self, *expect: Mapping[str, Any], in_order: bool = False, after: int = 0) -> None:
        """Check that requests and events have happened as often as expected since the last reset.

        `muster.verify({"api": "OffsetCommit", "group": group.id, "times": 1})`,
        `muster.verify({"event": "session_expired", "group": group.id, "times": 0})`. Requests up to number `after` do
        not count. Raises ExpectationError.
        """
        since = {"after": max(after, self._requests_since), "after_event": self._since}
        try:
            self.admin.call("POST", path_of("verify"), {"expect": expect, "in_order": in_order, **since})
        except MusterError as error:
            raise _expectation(error, 409) from None

    def lint(self) -> list[Json]:
        """Return findings about the clients since the last reset: rejoin storms, commits of an old generation."""
        return self.admin.read_list(path_of("lint", after=self._requests_since), "findings")

    def take_snapshot(self, name: str) -> None:
        """Keep all topics, groups and offsets under a name, for `restore_snapshot`."""
        self.admin.call("PUT", path_of("snapshots", name))

    def restore_snapshot(self, name: str) -> None:
        """Start again with a snapshot. Every connection is closed."""
        self.admin.call("POST", path_of("snapshots", name, "restore"))

    def remove_snapshot(self, name: str) -> None:
        """Remove a snapshot."""
        self.admin.call("DELETE", path_of("snapshots", name))

    def reset(self) -> None:
        """Remove all groups and topics of this run, and its faults. A clock that it has stopped runs again.

        Without a prefix the server is this run's alone: the clock runs again, and every connection is closed, unless
        there are names of a wider scope, which stay. Members of groups that are removed can join no group any more.
        """
        kept = self._find_kept()
        if self.prefix or kept:
            self._remove_faults()
        if self.clock.is_set or (kept and not self.prefix):
            self.clock.run()
        self._remove(self.prefix, kept)
        if self._given and not (self.prefix or kept):  # others had made the rest on a server that runs already
            self._given.intersection_update(self.state()["topics"])
        if kept:  # they are beginnings of names: what begins as a topic of the server's options is no such topic
            for name in self._find_names():
                if name not in self._given and not name.startswith(tuple(self._kept)):
                    self._remove(name, [one for one in (*self._kept, *self._given) if one.startswith(name)])
        self._faults.clear()
        self._since = self._latest()
        self._requests_since = int(self.admin.call("GET", path_of("journal"))["latest"])

    def _remove(self, prefix: str, kept: Sequence[str]) -> None:
        self.admin.call("POST", path_of("reset"), {"prefix": prefix, **({"keep": kept} if kept else {})})

    def note_given_topics(self) -> None:
        """Note the topics of the server's own options: their names stay as they are."""
        self._given.update(self.admin.call("GET", path_of("state"))["topics"])

    def remove_leftovers(self) -> None:
        """Remove what an earlier run has left on a running server: all that is named for a test, a module or a session.

        A run leaves what its session has named, and one that was killed all that its last test has named.
        """
        if self.scope:
            names = [name.removeprefix(self.prefix) for name in self._find_names()]
            for scope in sorted({found[0] for name in names if (found := SCOPED.match(name))}):
                self.admin.call("POST", path_of("reset"), {"prefix": self.prefix + scope})

    def _find_kept(self) -> list[str]:
        """Return the beginnings of names that a reset leaves alone, if there is anything of such a name."""
        if not self._kept:
            return []
        names = self._find_names()
        used = [kept for kept in self._kept if any(name.startswith(kept) for name in names)]
        return [*used, *self._given] if used else []

    def _find_names(self) -> list[str]:
        """Return the names of all groups and topics of this run."""
        state = self.state()
        return [*state["topics"], *state["offsets"], *(one["group"] for one in self.groups())]

    def timelines(self) -> dict[str, str]:
        """Return the timeline of each group of this run since the last reset, by the group's id."""
        after, ids = self._since, dict[str, None]()
        while True:
            page = self.admin.call("GET", f"/events?after={after}")
            ids |= dict.fromkeys(one["event"]["group"] for one in page["events"])
            if not page["events"] or page["events"][-1]["number"] >= page["latest"]:
                break
            after = page["events"][-1]["number"]
        return {name: self._timeline(name) for name in ids if self._is_of_interest(name)}

    def _is_of_interest(self, name: str) -> bool:
        """Return whether a group is of this scope, of a wider one, or named without the help of `name`."""
        if not name.startswith(self.prefix):
            return False
        is_of_a_scope = SCOPED.match(name.removeprefix(self.prefix)) is not None
        return not is_of_a_scope or name.startswith((*self._kept, self.prefix + self.scope))

    def _timeline(self, group_id: str) -> str:
        return Group(self.admin, group_id).timeline_text(self._since)

    def _latest(self) -> int:
        return int(self.admin.call("GET", f"/events?after={'9' * 18}")["latest"])

    def _remove_faults(self) -> None:
        for fault in self._faults:
            try:
                fault.remove()
            except MusterError as error:
                if error.status != 404:  # the test has removed it
                    raise


def _wait(admin: Admin, body: Json, timeout_ms: int) -> Json:
    try:
        return admin.call("POST", path_of("wait"), {**body, "timeout_ms": timeout_ms}, timeout_ms / 1000)
    except MusterError as error:
        raise _expectation(error, 408) from None


def _expectation(error: MusterError, status: int) -> MusterError:
    """Return the error as a failure of the test, where the server's status says that it is one."""
    return ExpectationError(str(error), error.status) if error.status == status else error


def _list(keep_alive: KeepAlive) -> str | list[str]:
    return keep_alive if isinstance(keep_alive, str) else list(keep_alive)
