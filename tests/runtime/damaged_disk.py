"""A node's files as a kill leaves them, and what may befall them: bits, lengths, names, and files of others."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any, Final, NamedTuple

import msgspec

from protocol import record_batch
from protocol.compression import Compression, Meter
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from storage import checkpoint
from storage.layout import DamagedLog
from tests.core import durable
from tests.dataplane.broker import batch
from tests.dataplane.transactional import transactional_batch
from tests.members import ClassicMember, ConsumerMember
from tests.requests import commit, fetch, produce, share
from tests.server.in_memory import InMemory, Peer
from tests.storage.compressing import COMPRESS
from tests.storage.crashing_disk import CrashingDisk

SETTINGS: Final[dict[str, Any]] = {
    "topics": {"t": 2},
    "log_segment_bytes": 1_024,
    "log_retention_ms": -1,
    "offsets_topic_num_partitions": 2,
    "offsets_topic_segment_bytes": 2_048,
    "group_consumer_assignment_interval_ms": 0,
}
CATALOG: Final = "__muster_catalog-0"
STORAGE_ERROR: Final = 56
Facts = dict[str, Any]  # by the directory of the log that says so


def killed_disk(codec: Compression = Compression.NONE) -> CrashingDisk:
    """Let a node have groups of both kinds, offsets, topics and transactions in several segments, and kill it."""
    server = InMemory(CrashingDisk(), **SETTINGS)
    peer = server.connect()
    for group in ("a", "b", "c"):
        member = ClassicMember(peer, group, instance="i", topics=("t",))
        member.join()
        member.sync(share(member.member_id, {}))
    for group in ("x", "y", "z"):
        ConsumerMember(peer, "m", group).beat(subscribed_topic_names=("t",))
    producer = peer.ask(InitProducerIdRequest("p", 60_000), 4)
    ids = (producer.producer_id, producer.producer_epoch)
    for number in range(24):
        for group in ("d", "e", "f", "g"):
            _commit(peer, group, number)
        _produce(peer, 0, _in_codec(batch(*[f"{number}-{n}" for n in range(8)]), codec))
        _produce(peer, 1, _in_codec(transactional_batch(ids, "t", sequence=number), codec), "p")
        if number % 3 == 2:
            peer.ask(EndTxnRequest("p", *ids, number % 2 == 0), 4)
    disk = server.files
    assert isinstance(disk, CrashingDisk), "it was made on one"
    return _own_logs_in_codec(disk.copy(), codec) if codec else disk.copy()


def _commit(peer: Peer, group: str, number: int) -> None:
    peer.ask(commit(group, {"t": {0: number, 1: number}}), 8)


def _produce(peer: Peer, partition: int, records: bytes, transactional_id: str | None = None) -> None:
    answer = peer.ask(produce("t", {partition: records}, transactional_id), 12)
    assert not answer.responses[0].partition_responses[0].error_code, answer


def _in_codec(data: bytes, codec: Compression) -> bytes:
    header = record_batch.header_at(data)
    body = bytes(COMPRESS[codec](data[record_batch.HEADER_BYTES :]))
    return record_batch.seal(msgspec.structs.replace(header, attributes=header.attributes | codec.value), body)


def _own_logs_in_codec(disk: CrashingDisk, codec: Compression) -> CrashingDisk:
    """As a broker leaves them whose `offsets.topic.compression.codec` says so."""
    found = CrashingDisk()
    for path, data in disk.contents().items():
        is_own = "/t-" not in path
        if is_own and path.endswith(".log"):
            batches = [(at, header) for at, header in record_batch.batches(data)]
            found.put(path, b"".join([_compress_at(data, at, header, codec) for at, header in batches]))
        elif not (is_own and path.endswith("index")):  # the positions in it are others now
            found.put(path, data)
    return found


def _compress_at(data: bytes, at: int, header: Any, codec: Compression) -> bytes:
    whole = data[at : at + header.size]
    return whole if header.is_control else _in_codec(whole, codec)


# -- what befalls them -------------------------------------------------------------------------------------------------


class Damage(NamedTuple):
    """One thing that has happened to one file, or to one directory."""

    kind: str
    path: str
    at: int = 0
    bit: int = 0

    def on(self, whole: CrashingDisk) -> CrashingDisk:
        """A disk to which it has happened."""
        disk = CrashingDisk()
        for path, data in whole.contents().items():
            if self.kind == "lose":
                if not path.startswith(f"{self.path}/"):
                    disk.put(path, data)
            elif path != self.path or self.kind == "foreign":
                disk.put(path, data)
            elif self.kind == "flip":
                disk.put(path, data[: self.at] + bytes([data[self.at] ^ 1 << self.bit]) + data[self.at + 1 :])
            elif self.kind == "cut":
                disk.put(path, data[: self.at])
        if self.kind == "foreign":
            disk.put(self.path, b"not ours")
        return disk


FOREIGN: Final = ("notes.txt", ".DS_Store", f"{7:020d}.log.bak", f"{7:020d}.snapshot", "leader-epoch-checkpoint", "d/x")


def damages(whole: CrashingDisk, dice: Random, each: int) -> Iterator[Damage]:
    """Yield `each` bits and `each` lengths of every file, its absence and that of its directory, and files of others."""
    contents = {path: data for path, data in whole.contents().items() if "-" in path and not path.endswith(".lock")}
    for path, data in contents.items():
        for _ in range(each if data else 0):
            yield Damage("flip", path, dice.randrange(len(data)), dice.randrange(8))
            yield Damage("cut", path, dice.randrange(len(data)))
        yield Damage("remove", path)
    for directory in sorted({path.rpartition("/")[0] for path in contents}):
        yield Damage("foreign", f"{directory}/{dice.choice(FOREIGN)}")
        yield Damage("lose", directory)
    yield Damage("foreign", f"data/{dice.choice(('photos-0/cat.jpg', 'readme', 't-9/notes', 'u-0/x.log'))}")


# -- what must hold then -----------------------------------------------------------------------------------------------


def facts(server: InMemory) -> Facts:
    """What the logs say, by their directories. A topic's partition that is closed is its error."""
    node, found = server.node, {}
    for partition in node.world.partitions:
        shard = durable.facts(partition.shard)
        for group in shard["groups"].values():
            if isinstance(group, dict):
                group.pop("owners", None)
        found[f"__consumer_offsets-{partition.index}"] = shard
    catalog = node.world.ledger.catalog
    found[CATALOG] = dict(catalog.topics.items()), catalog.configs, node.world.ledger.transactions.by_id
    for index in (0, 1):
        found[f"t-{index}"] = _read(server.connect(), index)
    return found


def _read(peer: Peer, index: int) -> Any:
    """Everything in a partition of the topic, or the error."""
    found: list[Any] = []
    offset = 0
    while True:
        asked = fetch("t", index, offset, min_bytes=0, isolation_level=1, partition_max_bytes=1 << 20)
        answer = peer.ask(asked, 11)
        one = answer.responses[0].partitions[0]
        if one.error_code:
            return one.error_code
        last = offset
        for at, header in record_batch.batches(one.records):
            if not header.is_control:  # a marker may be written again
                found += [
                    (record.offset, record.value) for record in record_batch.read(one.records, at, header, Meter())
                ]
            offset = header.next_offset
        found += [(last, each.producer_id, each.first_offset) for each in one.aborted_transactions or ()]
        if offset == last:
            return found


def check(whole: CrashingDisk, before: Facts, damage: Damage) -> str:
    """Start a node on the damaged files. Returns what it has made of them; raises where that may not be."""
    disk, directory = damage.on(whole), damage.path.split("/")[1]
    try:
        server = InMemory(disk, **SETTINGS)
    except DamagedLog as refusal:
        _check_refusal(whole, damage, disk, refusal.path)
        return "refused"
    after = facts(server)
    if damage.kind == "foreign":
        assert disk.contents()[damage.path] == b"not ours", damage
    differing = [name for name in before if after[name] != before[name]]
    if not differing:
        return "whole"
    if differing == [directory] and after[directory] == STORAGE_ERROR:
        return "closed"
    assert damage.kind == "cut", f"{damage}: {differing} differ, and nobody is told"
    assert directory in differing, f"{damage}: {differing} differ"
    assert directory == CATALOG or differing == [directory], f"{damage}: {differing} differ"
    _check_loss(whole, damage, disk)
    return "torn"


def _check_refusal(whole: CrashingDisk, damage: Damage, disk: CrashingDisk, path: str) -> None:
    """The start names the log that is damaged, one of the coordinator's own, and leaves it as it is."""
    directory = damage.path.split("/")[1]
    assert f"data/{directory}" in path, f"{damage}: {path} is not where the damage is"
    assert not directory.startswith("t-"), f"{damage}: a topic's log ends the start"
    assert damage.kind != "foreign", f"{damage}: {path}"
    left = {path: data for path, data in disk.contents().items() if path.startswith(f"data/{directory}/")}
    assert left.items() <= damage.on(whole).contents().items(), f"{damage}: the damaged log has been changed"


def _check_loss(whole: CrashingDisk, damage: Damage, disk: CrashingDisk) -> None:
    """What is lost by a cut is past the recovery point, and beside the log unless the cut was between two batches."""
    directory, _, name = damage.path.rpartition("/")
    contents = whole.contents()
    logs = sorted(path for path in contents if path.startswith(f"{directory}/") and path.endswith(".log"))
    assert damage.path == logs[-1], f"{damage}: records of a segment that was closed are lost"
    point = checkpoint.decode(checkpoint.read(whole, directory)).recovery_point
    ends = [(at + header.size, header.next_offset) for at, header in record_batch.batches(contents[damage.path])]
    lost = [offset for end, offset in ends if end > damage.at]
    assert all(offset > point for offset in lost), f"{damage}: what was on the disk is lost"
    if damage.at and damage.at not in {end for end, _ in ends}:
        assert any(path.startswith(f"{directory}/{name}.torn") for path in disk.contents()), (
            f"{damage}: nothing is kept"
        )
