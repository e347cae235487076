"""Bytes: versions that are not there, frames that are no requests, and ApiVersions."""

import struct

from kio.schema.index import api_key_map

from tests.conformance import wire
from tests.conformance.stage import Stage
from tests.conformance.story import story


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def header(key: int, version: int, correlation_id: int = 77) -> bytes:
    """A request header v1 with the client id "c"."""
    return struct.pack(">hhih", key, version, correlation_id, 1) + b"c"


@story("V-007 G-002")
def an_unknown_version_of_api_versions_is_answered_in_version_0(k: Stage) -> None:
    """UNSUPPORTED_VERSION with the one line that says what ApiVersions supports, so that a client can ask again."""
    k.line("a").send_bytes(
        "api_versions", 0, framed(header(18, 99) + b"\x00\x02c\x021\x00"), "ApiVersions in version 99"
    ).answer()


@story("V-007")
def a_client_must_have_a_proper_name_and_version(k: Stage) -> None:
    """Software names and versions of letters, digits, dots and dashes within; else INVALID_REQUEST."""
    for name, version in (
        ("client", "1.0"),
        ("", "1.0"),
        ("client", ""),
        ("my client", "1.0"),
        ("client", "1/0"),
        ("-client", "1.0"),
        ("client", "1.0-"),
        ("a.b-c", "1-x.2"),
    ):
        answer = k.line("a").quietly("api_versions", 3, client_software_name=name, client_software_version=version)
        k.events.append({"name": name, "version": version, "error": answer.error_code})


GROUP_APIS = (
    "offset_commit", "offset_fetch", "find_coordinator", "join_group", "heartbeat", "leave_group", "sync_group",
    "describe_groups", "list_groups", "delete_groups", "offset_delete", "consumer_group_heartbeat",
    "consumer_group_describe", "init_producer_id", "add_partitions_to_txn", "add_offsets_to_txn", "end_txn",
    "txn_offset_commit", "describe_transactions", "list_transactions",
)  # fmt: skip
BROKER_APIS = (
    "produce", "fetch", "list_offsets", "metadata", "api_versions", "create_topics", "delete_topics",
    "delete_records", "create_partitions", "describe_configs", "incremental_alter_configs", "describe_cluster",
    "describe_producers", "describe_topic_partitions", "list_config_resources",
)  # fmt: skip


def write_versions(k: Stage, names: tuple[str, ...]) -> None:
    """Write down which versions of these APIs are advertised."""
    answer = k.line("a").quietly("api_versions", 4, client_software_name="c", client_software_version="1")
    ranges = {api_key_map.get(one.api_key): f"{one.min_version}-{one.max_version}" for one in answer.api_keys}
    k.events.append({"ranges": {name: ranges.get(name) for name in names}})


@story("V-007 K-002")
def the_versions_of_the_group_apis(k: Stage) -> None:
    """What is advertised for the APIs of groups, offsets and transactions."""
    write_versions(k, GROUP_APIS)


@story("V-007")
def the_versions_of_the_broker_apis(k: Stage) -> None:
    """What is advertised for the APIs of topics, records and configs."""
    write_versions(k, BROKER_APIS)


@story("V-001")
def the_features_of_the_cluster(k: Stage) -> None:
    """Version 3 leaves out what is supported from 0 on (KAFKA-17011). Share and streams groups are told apart."""
    others = ("share.version", "streams.version")
    for version in (3, 4):
        answer = k.line("a").quietly("api_versions", version, client_software_name="c", client_software_version="1")
        supported = {one.name: [one.min_version, one.max_version] for one in answer.supported_features}
        finalized = {one.name: [one.min_version_level, one.max_version_level] for one in answer.finalized_features}
        k.events.append(
            {
                "version": version,
                "supported": {name: supported[name] for name in sorted(supported) if name not in others},
                "finalized": {name: finalized[name] for name in sorted(finalized) if name not in others},
                "known": answer.finalized_features_epoch >= 0,
            }
        )


@story("G-002 O-006 O-030 O-201")
def versions_that_are_not_advertised_close_the_connection(k: Stage) -> None:
    """Below and above the range: no answer, the connection ends."""
    for api, version in (
        ("offset_commit", 1),
        ("offset_fetch", 0),
        ("offset_commit", 11),
        ("join_group", 10),
        ("heartbeat", 5),
        ("find_coordinator", 7),
        ("fetch", 3),
    ):
        line = k.line(f"{api} {version}")
        line.send_bytes(
            api, version, framed(header(wire.KEYS[api], version) + bytes(64)), f"{api} in version {version}"
        ).closed()


@story("G-005")
def an_unknown_api_closes_the_connection(k: Stage) -> None:
    """There is no API 4711."""
    k.line("a").send_bytes("heartbeat", 0, framed(header(4711, 0)), "API key 4711").closed()


@story("G-005")
def a_body_that_breaks_off_closes_the_connection(k: Stage) -> None:
    """A JoinGroup that ends in the middle, and a null group id."""
    good = wire.request_frame("join_group", 5, 77, "c", {"group_id": "g", "protocol_type": "consumer"})
    k.line("a").send_bytes("join_group", 5, framed(good[4:-6]), "JoinGroup without its last 6 bytes").closed()
    k.line("b").send_bytes(
        "heartbeat", 0, framed(header(12, 0) + struct.pack(">hih", -1, 1, 0)), "Heartbeat with a null group id"
    ).closed()


@story("G-005")
def sizes_that_no_frame_has_close_the_connection(k: Stage) -> None:
    """Zero, negative, and far above the limit."""
    for size in (0, -1, 2**31 - 1):
        k.line(f"size {size}").send_bytes("heartbeat", 0, struct.pack(">i", size), f"a frame of size {size}").closed()


@story("G-005")
def surplus_bytes_after_a_request_are_ignored(k: Stage) -> None:
    """The request is answered as if it had ended where its schema does."""
    good = wire.request_frame("heartbeat", 0, 77, "c", {"group_id": k.name("none"), "member_id": "m"})
    k.line("a").send_bytes("heartbeat", 0, framed(good[4:] + b"surplus"), "Heartbeat with 7 bytes more").answer()


@story("G-001 K-346")
def unknown_tagged_fields_are_skipped(k: Stage) -> None:
    """A flexible request may carry tags that nobody knows, in its header and its body."""
    tag = b"\x01\x63\x03xyz"
    body = (
        struct.pack(">hhih", 12, 4, 77, 1) + b"c" + tag + b"\x05none" + struct.pack(">i", 1) + b"\x02m" + b"\x00" + tag
    )
    k.line("a").send_bytes("heartbeat", 4, framed(body), "Heartbeat v4 with unknown tags").answer()


@story("G-003")
def requests_on_one_connection_are_answered_in_order(k: Stage) -> None:
    """Ten are sent at once, of several APIs; the answers come in the same order."""
    line = k.line("a")
    sent = []
    for _ in range(5):
        sent.append(line.send("find_coordinator", 2, key=k.name("g")))
        sent.append(line.send("heartbeat", 3, group_id=k.name("none"), generation_id=1, member_id="m"))
    for pending in sent:
        pending.answer()
