"""What differs from run to run, made the same: ids by first appearance, orders that Kafka leaves open, texts.

- A UUID, or anything that holds one, becomes `<id-1>`, `<id-2>` ... by first appearance; known topic ids get their name.
- A producer id becomes `<producer-1>` ...; a time of these minutes `<now>`; the port and cluster id their names.
- A character that is there a thousand times and more in a row is shown once, with its count.
- Messages for people are not normative: any text becomes `<text>`, none stays null. Those of failed authentications stay.
- Lists that Kafka gives in no order (`UNORDERED`) are sorted by what is fixed in their items. All others stay as they are.
"""

import json
import re
import time
from collections.abc import Mapping
from typing import Any

from tests.conformance import batches

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
SHORT_UUID = re.compile(r"[A-Za-z0-9_-]{22}")
SCRAM_DRAWN = re.compile(r"(^|,)([rspv])=[^,]+")  # nonces and what is made of them
TIME = re.compile(r"\b1\d{12}\b")
LONG_RUN = re.compile(r"(.)\1{999,}", re.DOTALL)
NOW_MS = 5 * 60_000  # no story lasts longer, on the clock that it is told by
UNORDERED = {  # by API, the lists whose order is not the same in each run of Kafka, or is an accident of its parts
    # maps and sets by hash: of member ids and topic ids, which are drawn, and of names
    "join_group": {"members"},
    "describe_groups": {"groups", "members"},
    # partitions: those that a member may use, and then those that it has yet to give up
    "consumer_group_describe": {"groups", "members", "topic_partitions", "partitions", "subscribed_topic_names"},
    "consumer_group_heartbeat": {"topic_partitions", "partitions"},
    "share_group_heartbeat": {"topic_partitions", "partitions"},
    "share_fetch": {"responses", "partitions"},
    "initialize_share_group_state": {"partitions"},
    "read_share_group_state": {"partitions"},
    "write_share_group_state": {"partitions"},
    "delete_share_group_state": {"partitions"},
    "read_share_group_state_summary": {"partitions"},
    "share_acknowledge": {"responses", "partitions"},
    "share_group_describe": {"groups", "members", "topic_partitions", "subscribed_topic_names"},
    "describe_share_group_offsets": {"topics", "partitions"},
    "alter_share_group_offsets": {"responses"},
    "delete_share_group_offsets": {"responses"},
    "list_groups": {"groups"},
    "streams_group_heartbeat": {
        *("active_tasks", "standby_tasks", "warmup_tasks", "partitions"),
        *("partitions_by_user_endpoint", "active_partitions", "standby_partitions"),
    },
    "streams_group_describe": {"groups", "members", "client_tags", "topic_configs"},
    "sasl_handshake": {"mechanisms"},
    "list_transactions": {"transaction_states"},
    "describe_producers": {"active_producers"},
    "describe_transactions": {"topics", "partitions"},
    "list_offsets": {"topics", "partitions"},
    "delete_records": {"topics", "partitions"},
    "write_txn_markers": {"topics", "partitions"},
    "add_partitions_to_txn": {
        *("results_by_topic_v3_and_below", "results_by_transaction", "topic_results", "results_by_partition"),
    },
    "describe_configs": {"configs"},
    "alter_client_quotas": {"entries", "entity"},
    "describe_client_quotas": {"entries", "entity", "values"},
    "describe_user_scram_credentials": {"results"},
    "describe_acls": {"resources", "acls"},
    "delete_acls": {"matching_acls"},
    "create_partitions": {"results"},
    "list_config_resources": {"config_resources"},
    "alter_replica_log_dirs": {"results"},
    "offset_fetch": {"topics", "partitions"},
    "produce": {"responses", "partition_responses"},
    "delete_topics": {"responses"},
    # put together from what the broker refuses and what the coordinators say, in whichever order the two come
    "delete_groups": {"results"},
    "offset_commit": {"topics", "partitions"},
    "offset_delete": {"partitions"},
    "txn_offset_commit": {"topics", "partitions"},
}
TEXTS = {"error_message", "acknowledge_error_message", "batch_index_error_message", "documentation", "status_detail"}
IDS = {"member_id", "leader", "topic_id"}


class Normal:
    """The names that one run has given so far."""

    def __init__(self, prefix: str, *ports: int | None) -> None:
        self.prefix, self.ports = prefix, ports
        self.names: dict[str, str] = {}
        self.counts: dict[str, int] = {}
        self.messages: set[str] = set()  # the texts for people, without ids and times

    def knows(self, value: str, name: str) -> None:
        """From now on `value` is shown as `name`."""
        self.names[value] = name

    def named(self, value: str, kind: str) -> str:
        if value not in self.names:
            self.counts[kind] = self.counts.get(kind, 0) + 1
            self.names[value] = f"<{kind}-{self.counts[kind]}>"
        return self.names[value]

    def values(self, value: Any, api: str = "", key: str = "") -> Any:
        """`value` as every run shows it."""
        match value:
            case Mapping() if api == "describe_transactions" and value.get("topic") == "__consumer_offsets":
                return {**value, "partitions": "<of the group>"}  # by its name, which is another one in each run
            case Mapping():
                return {name: self.values(item, api, name) for name, item in value.items()}
            case list() | tuple():
                return [self.values(item, api, key) for item in self.in_order(list(value), api, key)]
            case bytes() if key == "records" and (found := batches.read(value)):
                return self.values(found, api, key)
            case bytes() if key == "records" and api == "fetch":
                return ""  # a batch that is cut: Muster leaves it out
            case bytes() if key == "auth_bytes":
                return SCRAM_DRAWN.sub(r"\1\2=<\2>", value.decode("latin-1").replace(self.prefix, ""))
            case bytes():
                return self.text(value.decode("latin-1").encode("unicode_escape").decode(), key)
            case str() if api == "sasl_authenticate":
                return value.replace(self.prefix, "")  # what clients show to their users
            case str():
                return self.text(value, key)
            case bool() | None | float():
                return value
            case int():
                return self.number(value, key)
        raise TypeError(f"{key}: {value!r}")

    def in_order(self, items: list[Any], api: str, key: str) -> list[Any]:
        return sorted(items, key=self.fixed) if key in UNORDERED.get(api, ()) else items

    def fixed(self, item: Any) -> str:
        """What an item is sorted by: itself, with the ids that are known and without those that are not."""
        shown = json.dumps(with_sorted_lists(item), sort_keys=True, default=str)
        if isinstance(item, dict) and "topic" in item:
            shown = item["topic"] + shown
        if isinstance(item, dict) and "producer_id" in item:
            shown = self.names.get(f"producer {item['producer_id']}", "~") + shown
        return UUID.sub(lambda found: self.names.get(found[0], "~"), shown)

    def text(self, value: str, key: str) -> str:
        if key in TEXTS and value not in ("", "NONE"):  # FindCoordinator's success is the text NONE
            if key != "documentation":
                self.messages.add(TIME.sub("<time>", UUID.sub("<id>", shorten(value.replace(self.prefix, "")))))
            return "<text>"
        if key == "cluster_id" and value:
            return "<cluster>"
        value = shorten(value.replace(self.prefix, ""))
        if value in self.names:
            return self.names[value]
        if key in IDS and SHORT_UUID.fullmatch(value):
            return self.named(value, "id")
        return UUID.sub(lambda found: self.named(found[0], "id"), value)

    def number(self, value: int, key: str) -> int | str:
        if key == "port" and value in self.ports:
            return "<port>"
        if key == "session_id" and value:
            return self.named(f"session {value}", "session")
        if "producer_id" in key and value >= 0:
            return self.named(f"producer {value}", "producer")
        if ("time" in key or key == "low_watermark_ms") and abs(value - time.time() * 1000) < NOW_MS:
            return "<now>"
        return value


def shorten(text: str) -> str:
    return LONG_RUN.sub(lambda run: f"<{len(run[0])} x {run[1]}>", text)


def with_sorted_lists(item: Any) -> Any:
    """Return the same with every list in it sorted, and without messages for people."""
    if isinstance(item, dict):
        return {key: with_sorted_lists(value) for key, value in item.items() if key not in TEXTS}
    return (
        sorted((with_sorted_lists(one) for one in item), key=lambda one: json.dumps(one, sort_keys=True, default=str))
        if isinstance(item, list)
        else item
    )
