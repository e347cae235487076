"""Sequences of random valid requests to a whole node: every API and version that it offers, hostile values.

A request is drawn field by field from the schema of its version. A value comes from a small pool that suits the field's
name, from what earlier requests and responses said, or from the limits of its type. The values of settings are at the
limits of theirs, and the times of records at those of 64 bits, while the janitor has its rounds. So that sequences get deep, most
requests take the fields of one identity together: the group, member and generation, or the transactional id, producer
id and epoch, of one earlier request and its response.

`python -m tests.simulation.fuzz --seed 1 --sequences 20000` prints the seed of every sequence that breaks a promise.
"""

from __future__ import annotations

import argparse
import copy
import logging
import sys
import time
from collections import Counter, deque
from math import inf, nan
from random import Random
from typing import Any, Final

from construct import Bytes, Construct, FormatField
from msgspec import Struct
from msgspec.structs import replace

from coordinator.core.catalog.group_configs import GROUP_CONFIGS
from coordinator.core.catalog.topic_configs import BOOLEAN, INT, LONG, TOPIC_CONFIGS
from coordinator.runtime.janitor import Janitor
from protocol import record_batch
from protocol.apis import ADVERTISED_ONLY, API, APIS, BY_NAME
from protocol.constructs import ArrayOf, Blob, Text
from protocol.errors import ErrorCode
from protocol.messages import consumer_protocol as embedded
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.produce import ProduceRequest
from protocol.records import Record
from protocol.structs import NullableStruct, StructOf, TagSection
from protocol.wire import ZERO_UUID
from tests import requests
from tests.server.in_memory import WALL_MS, InMemory, Peer
from tests.simulation.broken import Broken, promise
from tests.simulation.promises import ErrorLog, check_replay

REQUESTS: Final = 200  # a sequence
CONNECTIONS: Final = 4
SEEN_MAX: Final = 12  # values by name, and identities
PAUSES_S: Final = (*(0.1, 1, 3.5) * 5, 10, 61, 8 * 86_400)
TURNS_MAX: Final = 10_000  # until a request that is decided in steps is answered

CONFIGS: Final = (*TOPIC_CONFIGS, *GROUP_CONFIGS)
SET: Final = 0.4  # of the settings, of each topic and group
RECORD_TIMES: Final = (*(WALL_MS,) * 8, -1, 0, WALL_MS - 8 * 86_400_000, 2**63 - 1, 2**62, -(2**63))
KEYS: Final = (None, b"k", b"k", b"l")

OFTEN: Final = (
    *("JoinGroup", "SyncGroup", "Heartbeat", "OffsetCommit", "OffsetFetch", "ConsumerGroupHeartbeat"),
    *("InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn", "Produce"),
)

SAME_AS: Final = {  # names that different messages give to the same thing
    **dict.fromkeys(("group", "groups", "group_ids", "groups_names", "key", "coordinator_keys"), "group_id"),
    **dict.fromkeys(("leader", "member_ids"), "member_id"),
    **dict.fromkeys(("generation_id_or_member_epoch", "member_epoch"), "generation_id"),
    **dict.fromkeys(("group_instance_id",), "instance_id"),
    **dict.fromkeys(("transactional_ids",), "transactional_id"),
    **dict.fromkeys(("producer_id_filters",), "producer_id"),
    **dict.fromkeys(
        ("name", "topic", "topic_name", "topic_names", "topics", "subscribed_topic_names", "resource_name"), "topic"
    ),
    **dict.fromkeys(("partition", "partitions", "partition_index", "partition_indexes", "index"), "partition"),
    **dict.fromkeys(("protocol_name", "server_assignor"), "assignor"),
    **dict.fromkeys(("last_sequence", "base_sequence"), "sequence"),
}

GONE_MEMBER: Final = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.FENCED_MEMBER_EPOCH)
GONE: Final = (
    *GONE_MEMBER,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.PRODUCER_FENCED,
)

HOSTILITIES: Final = (0.0, 0.0, 0.0, 0.05, 0.3)  # of requests

TOPICS: Final = (
    "t",
    "t",
    "t",
    "u",
    "u",
    "new",
    "new.2",
    "__consumer_offsets",
    "__transaction_state",
    "unknown",
    "..",
    "g0",
)
POOLS: Final[dict[str, tuple[Any, ...]]] = {  # by name, once those of `SAME_AS` are one
    "group_id": ("g0", "g1", "g2", "g3"),
    "member_id": (*("",) * 6, "m"),
    "generation_id": (0, 0, 0, -1, 1, 2, -2),
    "instance_id": (None, None, None, "i0", "i1"),
    "transactional_id": ("x0", "x1", "x1", None),
    "producer_id": (-1, 0, 1, 2),
    "producer_epoch": (-1, 0, 1, 32766),
    "topic": TOPICS,
    "partition": (0, 0, 0, 1, 2, 3),
    "protocol_type": (*("consumer",) * 8, "connect", ""),
    "assignor": (*("range",) * 6, "uniform", "roundrobin"),
    "session_timeout_ms": (6_000, 10_000, 45_000),
    "rebalance_timeout_ms": (-1, 0, 1_000, 30_000),
    "transaction_timeout_ms": (1, 1_000, 60_000),
    "max_wait_ms": (0, 0, 500),
    "isolation_level": (0, 1),
    "num_partitions": (-1, 1, 3),
    "count": (1, 4, 6),
    "replication_factor": (-1, 1),
    "broker_ids": (0,),
    "key_type": (0, 1, 2),
    "resource_type": (2, 4, 8, 32),
    "config_operation": (0, 1, 2, 3),
    "config_name": (*(config.name for config in CONFIGS), "cleanup.policy", "message.timestamp.type", "x"),
    "value": (None, "", "compact", "delete", "1", "45000", "2147483647"),
    "timestamp": (-1, -2, -3, 0, WALL_MS),
    "committed_offset": (0, 1, 7),
    "offset": (-1, 0, 1),
    "fetch_offset": (0, 1),
    "retention_time_ms": (-1, 0, 1_000),
    "acks": (-1, 1, 0),
    "subscribed_topic_regex": (None, "", "t|u", "(", ".*", "(a*)*b"),
    "mechanism": ("PLAIN",),
    "timeout_ms": (0, 1_000),
    "current_leader_epoch": (-1, 0),
    "session_id": (0,),
    "session_epoch": (-1, 0),
    "entity_type": ("user", "client-id", "client-id"),
    "entity_name": (None, "c0", "c1"),
    "quota": ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate"),
}
ASSIGNED: Final = (*((0, 1),) * 12, (0, 1, 2), (0, 0), (0, 3), (-1,), (-(2**31),), (2**31 - 1,))
"""Partitions of a topic that leaders assign."""
HOSTILE: Final = (
    *(
        "",
        " ",
        ".",
        "/",
        "../..",
        "a/b",
        "\0",
        "\n",
        "é",
        "日本",
        "😀",
        "\u202e",
        "%s",
        "{}",
        "a:b",
        "__muster_catalog",
    ),
    *("n" * 127, "n" * 128, "n" * 249, "n" * 250, "n" * 32_767, "é" * 16_383),
)
BITS: Final = {"b": 8, "h": 16, "l": 32, "q": 64, "B": 8, "H": 16, "L": 32}


def same(name: str) -> str:
    """Return the name under which values of a field are kept."""
    return SAME_AS.get(name, name)


class Draw:
    """Draws requests, and learns from responses."""

    def __init__(self, dice: Random) -> None:
        self._dice = dice
        self._seen: dict[str, deque[Any]] = {}
        self._members: deque[dict[str, Any]] = deque(maxlen=SEEN_MAX)  # what one response said of a member
        self._producers: deque[dict[str, Any]] = deque(maxlen=SEEN_MAX)
        self._focus: dict[str, Any] = {}  # the identities that the request takes part in
        self._hostility = 0.0  # the share of hostile values in it

    def request(self, api: API, version: int) -> Any:
        """Draw a request."""
        self._focus = {}
        self._hostility = self._dice.choice(HOSTILITIES)
        for identities in (self._members, self._producers):
            if identities and self._dice.random() < 0.85:
                self._focus |= identities[-1 - min(int(self._dice.expovariate(0.7)), len(identities) - 1)]
        message = self._message(api.request.at(version, api.is_flexible(version)))
        is_calm_join = isinstance(message, ConsumerGroupHeartbeatRequest) and not self._hostility
        if is_calm_join and message.member_epoch == 0:
            topics = (self._dice.choice(("t", "u")),)
            return replace(
                message,
                member_id=message.member_id or f"m{self._dice.randrange(4)}",
                rebalance_timeout_ms=30_000,
                subscribed_topic_names=topics,
                subscribed_topic_regex=None,
                server_assignor=None,
                topic_partitions=(),
            )
        return message

    def first_requests(self) -> tuple[str, ...]:
        """Return the APIs by which clients begin, of the kinds that no client is known of."""
        members = () if self._members else ("JoinGroup", "ConsumerGroupHeartbeat")
        return members if self._producers else (*members, "InitProducerId")

    def learn(self, request: Any, response: Any) -> None:
        """Keep the values of a response, and the identity that the request and it make."""
        self._remember(response, 0)
        error = getattr(response, "error_code", 0)
        if error not in (0, ErrorCode.MEMBER_ID_REQUIRED):
            if error in GONE and self._dice.random() < 0.7:
                self._forget(request, error)
            return
        said = _identity(response)
        if "member_id" in said:
            self._members.append(_identity(request) | said)
        if "producer_id" in said:
            self._producers.append(_identity(request) | said)

    def _forget(self, request: Any, error: int) -> None:
        """Drop the identity that the server does not know any more, so that later requests begin anew."""
        identities = self._members if error in GONE_MEMBER else self._producers
        said = _identity(request)
        name = "member_id" if error in GONE_MEMBER else "producer_id"
        for one in [one for one in identities if one.get(name) == said.get(name)]:
            identities.remove(one)

    def _remember(self, message: Any, depth: int) -> None:
        for field in message.__struct_fields__:
            value = getattr(message, field)
            for one in value[:3] if isinstance(value, tuple) else (value,):
                if isinstance(one, Struct):
                    self._remember(one, depth + 1)
                elif one is not None:
                    self._seen.setdefault(same(field), deque(maxlen=SEEN_MAX)).append(one)

    def _message(self, struct: StructOf) -> Any:
        values: dict[str, Any] = {}
        kind = struct.cls.__name__
        name_of = "assignor" if kind.endswith("Protocol") else "config_name" if kind.endswith("Config") else "topic"
        pools = {"name": name_of, "key": "quota" if kind.endswith("OpData") else "key"}
        for name, subcon in struct.members:
            if name:
                values[name] = self._value(pools.get(name, name), subcon)
                continue
            assert isinstance(subcon, TagSection)
            for field in subcon.fields:
                if self._dice.random() < 0.5:
                    values[field.name] = self._value(field.name, field.subcon)
        if kind.endswith("Config") and "value" in values and self._dice.random() < 0.8:
            values["value"] = self.setting(values["name"]) or values["value"]
        return struct.cls(**values)

    def setting(self, name: str) -> str | None:
        """Draw a value that a setting may have, mostly its least or its greatest. None if there is no such setting."""
        config = next((config for config in CONFIGS if config.name == name), None)
        if config is None:
            return None
        if config.kind == BOOLEAN:
            return self._dice.choice(("true", "false"))
        if config.kind not in (INT, LONG):
            return self._dice.choice(config.words or (config.default,))
        greatest = 2**31 - 1 if config.kind == INT else 2**63 - 1
        least = -greatest - 1 if config.least is None else int(config.least)
        most = greatest if config.most is None else int(config.most)
        return str(self._dice.choice((least, least, most, most, most - 1, config.default)))

    def _value(self, name: str, subcon: Construct) -> Any:
        """Draw a value that `subcon` can write."""
        dice, chance = self._dice, self._dice.random()
        if isinstance(subcon, StructOf):
            return self._message(subcon)
        if isinstance(subcon, NullableStruct):
            return self._message(subcon.subcon) if chance < 0.7 else None
        if isinstance(subcon, ArrayOf):
            if subcon.nullable and chance < 0.3:
                return None
            return tuple(self._value(name, subcon.element) for _ in range(dice.choice((0, 1, 1, 1, 2, 2, 3))))
        if isinstance(subcon, Blob):
            return self._blob(name, subcon)
        key = same(name)
        if chance < self._hostility:
            return self._limit(subcon)
        chance = dice.random()
        if key in self._focus and chance < 0.97 and _fits(self._focus[key], subcon):
            return self._focus[key]
        if key in POOLS and (chance < 0.9 or key not in self._seen):
            value = dice.choice(POOLS[key])
            if _fits(value, subcon):
                return value
        if key in self._seen and chance < 0.95:
            value = dice.choice(self._seen[key])
            if _fits(value, subcon):
                return value
        return self._limit(subcon)

    def _limit(self, subcon: Construct) -> Any:
        """Draw a hostile value."""
        dice = self._dice
        if isinstance(subcon, Text):
            return None if subcon.nullable and dice.random() < 0.3 else dice.choice(HOSTILE)
        if isinstance(subcon, Bytes):
            return dice.choice((ZERO_UUID, b"\xff" * 16, dice.randbytes(16)))
        layout = subcon.fmtstr[1:]
        if layout == "?":
            return dice.random() < 0.5
        if layout == "d":
            return dice.choice((0.0, -1.0, 5e-324, 100.0, 1e308, inf, nan))
        low, high = _range(layout)
        return max(low, dice.choice((low, low + 1, -2, -1, 0, 1, 2, high - 1, high, dice.randint(low, high))))

    def _blob(self, name: str, subcon: Blob) -> bytes | None:
        """Draw opaque bytes, mostly such that mean something where they stand."""
        dice = self._dice
        if subcon.nullable and dice.random() < self._hostility:
            return None
        if dice.random() < self._hostility:
            return dice.choice((b"", b"\0", b"\xff" * 8, dice.randbytes(dice.choice((1, 60, 5_000)))))
        if name == "records":
            return self._batch()
        topics = tuple(dice.choice(TOPICS) for _ in range(dice.randrange(3)))
        if name == "assignment":
            owned = tuple(
                embedded.ConsumerProtocolAssignmentTopicPartition(topic, dice.choice(ASSIGNED)) for topic in topics
            )
            return embedded.write(embedded.ConsumerProtocolAssignment(owned))
        return embedded.write(embedded.ConsumerProtocolSubscription(topics), dice.randrange(embedded.VERSION_MAX + 1))

    def _batch(self) -> bytes:
        dice = self._dice
        records = [
            Record(dice.choice(KEYS), dice.choice((b"v", b"v", None)), timestamp=dice.choice(RECORD_TIMES))
            for _ in range(dice.randint(1, 3))
        ]
        if dice.random() < 0.3:
            return record_batch.encode(records)
        return record_batch.encode(
            records,
            producer_id=self._focus.get("producer_id", dice.randrange(4)),
            producer_epoch=self._focus.get("producer_epoch", dice.randrange(2)),
            base_sequence=dice.choice((0, 0, 1, 2, 3, 2**31 - 1)),
            transactional=dice.random() < 0.7,
        )


def _identity(message: Any) -> dict[str, Any]:
    """Return those fields of a message that say who it is of or for."""
    values = {same(field): getattr(message, field) for field in message.__struct_fields__}
    return {
        name: value
        for name, value in values.items()
        if name in IDENTITY and isinstance(value, int | str) and value not in ("", -1)
    }


IDENTITY: Final = (
    *("group_id", "member_id", "generation_id", "instance_id", "protocol_type", "assignor"),
    *("transactional_id", "producer_id", "producer_epoch"),
)


def _range(layout: str) -> tuple[int, int]:
    bits = BITS[layout]
    return (0, 2**bits - 1) if layout.isupper() else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def _fits(value: Any, subcon: Construct) -> bool:
    """Whether `subcon` can write a value, which came from a field of the same name and perhaps of another type."""
    if isinstance(subcon, Text):
        return isinstance(value, str) or (value is None and subcon.nullable)
    if isinstance(subcon, Bytes):
        return isinstance(value, bytes) and len(value) == 16
    if not isinstance(subcon, FormatField) or type(value) is not int or subcon.fmtstr[1:] not in BITS:
        return False
    low, high = _range(subcon.fmtstr[1:])
    return low <= value <= high


class Sequence:
    """One node, some connections to it, and a sequence of requests."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.counts: Counter[str] = Counter()
        self._dice = Random(seed)
        self._draw = Draw(self._dice)
        self._settings: dict[str, Any] = {
            "topics": {"t": 3, "u": 1},
            "offsets_topic_num_partitions": 3,
            "group_initial_rebalance_delay_ms": self._dice.choice((0, 3_000)),
        }
        self._server = InMemory(**self._settings)
        self._janitor = self._begin_upkeep()
        self._peers = [self._server.connect(f"c{number}") for number in range(CONNECTIONS)]
        self._last = ""

    def play(self, count: int) -> None:
        """Send requests, and move the clock or start again in between. Raises `Broken`."""
        try:
            with ErrorLog() as errors:
                self._set_limits()
                for _ in range(count):
                    chance = self._dice.random()
                    if chance < 0.01:
                        self._restart()
                    elif chance < 0.06:
                        self._server.advance(self._dice.choice(PAUSES_S))
                    elif chance < 0.08:
                        self._look_after_logs()
                    self._request()
                    errors.check()
                    self._check_failures()
                self._restart()
                errors.check()
        except Exception as error:
            raise Broken(f"seed {self.seed}: {type(error).__name__}: {error}\nafter {self._last[:2_000]}") from error

    def _set_limits(self) -> None:
        """Give what there is, and the groups to come, some settings, mostly with the least or the greatest value."""
        for kind, names, configs in ((2, ("t", "u"), TOPIC_CONFIGS), (32, POOLS["group_id"], GROUP_CONFIGS)):
            heeded = [config.name for config in configs if not config.doc.startswith("Kept")]
            for name, setting in [(name, one) for name in names for one in heeded if self._dice.random() < SET]:
                value = self._draw.setting(setting)
                self._send(self._peers[0], requests.alter_configs(kind, name, {setting: str(value)}), 1)

    def _request(self) -> None:
        at = self._dice.randrange(CONNECTIONS)
        peer = self._peers[at]
        is_held = peer.connection.parked or peer.connection.is_muted
        if peer.connection.closing or (is_held and self._dice.random() < 0.3):
            self._server.frontend.disconnect(peer.connection)
            peer = self._peers[at] = self._server.connect(f"c{at}")
        if peer.connection.parked or peer.connection.is_muted:
            return
        offered = self._server.node.engine.offered
        chance = self._dice.random()
        names = self._draw.first_requests() if chance < 0.3 else ()
        key = BY_NAME[self._dice.choice(names or OFTEN)].key if chance < 0.7 else self._dice.choice(sorted(offered))
        versions = [version for version in offered[key] if (key, version) not in ADVERTISED_ONLY]
        version = self._dice.choice(versions)
        message = self._draw.request(APIS[key], version)
        self._last = f"{APIS[key].name} {version}: {message!r}"
        self.counts["requests"] += 1
        self._send(peer, message, version)

    def _send(self, peer: Peer, message: Any, version: int) -> None:
        """Send a request, and check that it is answered, parked, or that its connection is closed."""
        before = len(peer.answers)
        peer.send((message, version))
        for _ in range(TURNS_MAX):
            self._server.turn()
            if not self._server.frontend.has_work:
                break
        arrived = peer.answers[before:]
        promise(len(arrived) <= 1, "a request is answered once", lambda: repr(arrived))
        if arrived:
            self.counts["answered"] += 1
            self.counts["without an error"] += not getattr(arrived[0][1], "error_code", 0)
            self._draw.learn(message, arrived[0][1])
        elif peer.connection.parked:
            self.counts["parked"] += 1
        elif peer.connection.closing:
            self.counts["closed"] += 1
        else:
            wants_none = isinstance(message, ProduceRequest) and message.acks == 0
            promise(wants_none, "a request is answered, parked, or its connection closed")

    def _begin_upkeep(self) -> Janitor:
        return Janitor(self._server.node, self._server.clock.now_ms(), rest_rounds=0)

    def _look_after_logs(self) -> None:
        """Let the janitor have a round, which deletes and compacts what is old by then."""
        self.counts["rounds of the janitor"] += 1
        for wait in self._janitor.round(self._server.clock.now_ms()):
            if wait is not None:
                wait()
        self._server.turn()

    def _check_failures(self) -> None:
        failures = self._server.node.world.edge.failures
        promise(not failures, "no internal error", lambda: repr(failures))
        closed = self._server.stats.connections_closed
        promise("internal error" not in closed, "no connection is closed for an internal error", lambda: repr(closed))

    def _restart(self) -> None:
        """Compare the node with one that reads its files, and go on with a new node from the same files."""
        old = self._server
        old.turn()
        self.counts["starts"] += 1
        wall_ms = old.clock.now_ms()
        settings = {**self._settings, "topics": {}}
        twin = InMemory(copy.deepcopy(old.files), is_loaded=False, wall_ms=wall_ms, **settings)
        check_replay(old.node.world, twin.node.world)
        if self._dice.random() < 0.5:
            old.node.close()
        self._server = InMemory(old.files, wall_ms=wall_ms, seed=self._dice.randrange(1 << 30), **settings)
        self._janitor = self._begin_upkeep()
        self._peers = [self._server.connect(f"c{number}") for number in range(CONNECTIONS)]
        self._check_failures()


def fuzz(seed: int, count: int = REQUESTS) -> Counter[str]:
    """Play the sequence of a seed, and return what was done. Raises `Broken`, which names the seed."""
    sequence = Sequence(seed)
    sequence.play(count)
    return sequence.counts


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.fuzz")
    parser.add_argument("--seed", type=int, default=1, help="of the first sequence; the next ones have the next ones")
    parser.add_argument("--sequences", type=int, default=100, help=f"of {REQUESTS} requests each")
    arguments = parser.parse_args()
    logging.getLogger("muster").setLevel(logging.ERROR)
    logging.getLogger("muster").propagate = False
    counts: Counter[str] = Counter()
    broken, began = 0, time.monotonic()
    for seed in range(arguments.seed, arguments.seed + arguments.sequences):
        try:
            counts += fuzz(seed)
        except Broken as error:
            broken += 1
            print(error, flush=True)
        if not (seed - arguments.seed + 1) % 100:
            print(f"to seed {seed}: {dict(counts)}, broken {broken}, {time.monotonic() - began:.0f} s", flush=True)
    print(f"{arguments.sequences} sequences from seed {arguments.seed}: {dict(counts)}, broken {broken}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
