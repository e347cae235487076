"""No loop over what a client names, or over what the server holds, but those that give way or say their bound.

`tests/loops.py` says what it sees. What stands here is decided in one piece: each with its bound, which is the largest
that one pass can take, by the default settings.
"""

import re
from collections.abc import Mapping
from functools import cache
from typing import Final

import pytest

from tests.loops import Loop, find_loops, loops_of

ONE_GROUP: Final = (
    "one group, which has one state: group.members.max.bytes and a request; targets are measured by tests.worst"
)
PART: Final = "a part of a request: 2,000 topics and partitions (runtime/long_commits)"
FRAME: Final = (
    "entries of one request: 45,000, or of LARGE ones 200,000 (protocol/bounds), each looked up or copied once"
)
ENTRY: Final = "one entry of a request that is decided in steps, priced by its length: 32,767 bytes"
PARTITIONS: Final = "partitions of __consumer_offsets or __share_group_state: 50 each"
ONE_TOPIC: Final = "partitions of one topic: 10,000 (create_topics)"
ENDS: Final = "the start or the end of a node, by which nobody is served: 85 ms for 2,000 topics"
IN_A_THREAD: Final = "in a thread, an entry of the journal at a time: journal.max.bytes"
A_BATCH: Final = "batches of what one response reads: fetch.max.bytes"
A_MISTAKE: Final = "a mistake in a body of 1 MiB: types of one operation"
ONE_TRANSACTION: Final = "partitions of one transaction: transactional.ids.max.bytes, 80,000 in one request"

BOUNDS: Final[Mapping[str, str]] = {
    "core/kinds/": ONE_GROUP,
    "core/assignors/": ONE_GROUP,
    # requests, entry by entry
    "core/catalog/alter_configs.py": ENTRY,
    "core/catalog/alterations.py:_price_of": ENTRY,
    "core/catalog/alterations.py:alter_resources": FRAME,
    "core/catalog/alterations.py:_refuse_min_isr": FRAME,
    "core/catalog/alterations.py:refuse_shape": FRAME,
    "core/catalog/create_partitions.py": FRAME,
    "core/catalog/create_topics.py": FRAME,
    "core/catalog/delete_topics.py:delete_topics": FRAME,
    "core/catalog/delete_topics.py:_tombstones": ONE_TOPIC,
    "core/acls/create_acls.py": FRAME,
    "core/acls/delete_acls.py": "200 rules, which are removed at once (result.STEP_ENTRIES)",
    "core/catalog/describe_configs.py:describe_configs": FRAME,
    "core/catalog/describe_configs.py:_of_broker": "names of settings of one broker: some 300",
    "core/catalog/describe_user_scram_credentials.py": FRAME,
    "core/catalog/incremental_alter_configs.py": ENTRY,
    "core/catalog/list_config_resources.py:list_config_resources": "types of resources, which are bytes: 256",
    "core/growth.py": PART,
    "core/moves.py:lose_commits": "offsets of a partition that are remembered: 20,000 (commit_history)",
    "core/offsets/offset_commit.py": PART,
    "core/offsets/offset_delete.py": PART,
    "core/offsets/offset_fetch.py": PART,
    "core/offsets/outcomes.py": PART,
    "core/offsets/txn_offset_commit.py": PART,
    "core/record_types.py": PART,
    "core/shard.py:Shard._put": "timers of the states of a group: 3",
    "core/transactions/add_partitions_to_txn.py": FRAME,
    "core/transactions/list_transactions.py": FRAME,
    "core/transactions/transaction.py": ONE_TRANSACTION,
    "dataplane/describe_log_dirs.py": "names of topics: topics.max.bytes, each compared once; what is described is in steps",
    "dataplane/describe_quorum.py": FRAME,
    "dataplane/describe_topic_partitions.py": FRAME,
    "dataplane/fetch.py:_find_logs": "20 partitions: others are not remembered",
    "dataplane/fetch.py:_resolve_fetch": FRAME,
    "dataplane/fetch.py:_recall": "20 partitions: others are not remembered",
    "dataplane/fetch.py:_fetch": FRAME,
    "dataplane/delete_records.py:delete_records": FRAME,
    "dataplane/list_offsets.py": FRAME,
    "dataplane/metadata.py:_count_partitions": FRAME,
    "dataplane/metadata.py:_find_topics": "a generator: those who take from it give way, each 50 names",
    "dataplane/metadata.py:_asks_for_more_than_names": FRAME,
    "dataplane/metadata.py:_partitions": ONE_TOPIC,
    "dataplane/produce.py": FRAME,
    "dataplane/share/acknowledging.py": FRAME,
    "dataplane/share_fetch.py": FRAME,
    "dataplane/sessions.py:FetchSessions.withdraw": "partitions of one session: 20,000, of which few have news at a time",
    "dataplane/withdrawal.py": "one response that rests on records that a failed disk has lost: 4 MiB",
    "runtime/authorization/group_needs.py:_deny_offsets": ENTRY,
    "runtime/authorization/group_needs.py:_deny_share_offsets": ENTRY,
    "runtime/authorization/group_needs.py:refuse_find": "200 entries that are denied (guard), or all in one error",
    "runtime/authorization/group_needs.py:refuse_offset_delete": "200 entries that are denied (guard)",
    "runtime/authorization/refusals.py": FRAME,
    "runtime/authorization/group_needs.py:topology_topics": "topics of one topology: a frame of 8 MiB",
    "runtime/authorization/topic_needs.py:each_config.judge": FRAME,
    "runtime/authorization/topic_needs.py:refuse_producers.told": ENTRY,
    "runtime/authorization/topic_needs.py:refuse_producers": "200 entries that are denied (guard)",
    "runtime/authorization/topic_needs.py:see_topics": FRAME,
    "runtime/authorization/transaction_needs.py:produce_transaction": FRAME,
    "runtime/authorization/transaction_needs.py:transaction_topics.hide_denied_topics": "topics of one transaction: transactional.ids.max.bytes",
    "runtime/error_response.py": FRAME,
    "runtime/group_topics.py": "topics of one topology: a frame of 8 MiB",
    "runtime/group_requests.py:_fetch_in_steps": PART,
    "runtime/group_requests.py:_parts": FRAME,
    "runtime/group_requests.py:_txn_commit": PART,
    "runtime/group_requests.py:_wants_few": PART,
    "runtime/group_requests.py:list_groups": PARTITIONS,
    "runtime/long_commits.py:is_long": PART,
    "runtime/share_group_offsets.py:_describe": "partitions of one topic of a request that there is not: 200,000",
    "runtime/share_groups.py:_conclude": "topics of one share group: topics.max.bytes",
    "runtime/share_groups.py:_find_begun": ONE_TOPIC,
    "runtime/share_groups.py:_end_in_steps": "topics of one share group: topics.max.bytes; their partitions end in steps",
    "runtime/share_state_requests.py": FRAME,
    "runtime/transactions.py": FRAME,
    "runtime/update_features.py": FRAME,
    # what the server holds
    "core/acls/filters.py": "rules that a filter may match: 10,000, each compared once",
    "core/catalog/describe_configs.py:_result": "settings of one resource: some 300",
    "core/cleanup.py": "500 offsets of a group (TOMBSTONES_A_STEP)",
    "core/dispatch.py": "mistakes of 4 kinds of groups, at the import",
    "core/offsets/commit_history.py": PART,
    "core/offsets/store.py:OffsetStore.commit_together": PART,
    "core/offsets/store.py:OffsetStore.end_transaction": "groups of 150,000 pending offsets, which are collected in 6 ms",
    "core/offsets/store.py:OffsetStore.groups_of": "groups of a partition of 50, each compared once: groups.max.bytes",
    "core/shard.py:Shard.fire": "100 timers of a turn, by the members of their groups (engine.TIMERS_A_TURN)",
    "core/share_partitions/operate.py": "batches of one share partition: 2,000 records in flight",
    "core/share_partitions/load.py": "batches of one share partition: 2,000 records in flight",
    "core/share_state/combine.py": "batches of one share partition: 2,000 records in flight",
    "core/transactions/transactions.py:Transactions.find_prepared_transactions": "transactions that are not over: transactional.ids.max.bytes, each looked at once",
    "core/weights.py": "members of one group that an input has changed: tests.worst measures 1,500",
    "dataplane/metadata.py:metadata": "a generator that gives way each 50 names",
    "dataplane/share/fetching.py": "20 partitions, and " + A_BATCH,
    "dataplane/topic_logs.py": "directories of the data directory, listed once: topics.max.bytes",
    "runtime/advance.py": PARTITIONS,
    "runtime/coordinators.py": PARTITIONS,
    "runtime/loads.py": PARTITIONS,
    "runtime/replay.py": "a journal that is replayed by a command of its own, 1 at a time",
    "runtime/security.py": "10,000 rules of one request",
    "runtime/topic_log.py": "topics of one step: 200 (result.STEP_ENTRIES)",
    "core/catalog/catalog.py:Catalog.missing_logs": ENDS,
    "core/catalog/catalog.py:Catalog.topics": "all topics: topics.max.bytes; made anew after a change, kept else",
    "core/catalog/list_config_resources.py:_groups": "settings of groups: group.configs.max.bytes, each compared once",
    "core/topics.py:Topics.may_have_changed": "topics of one group that exist: topics.max.bytes, each compared once",
    "core/shard.py:Shard.finish_loading": "groups of a partition that has just been loaded: groups.max.bytes / 50",
    "core/share_state/machine.py": "states of one of 50 partitions of __share_group_state, each compared once, by the janitor",
    "core/transactions/expiry.py": "transactional ids: transactional.ids.max.bytes, each compared once; their end is in steps",
    "dataplane/dataplane.py:DataPlane._abort_orphans": "producers of one log that is opened: producer.ids.max.bytes",
    "dataplane/dataplane.py:DataPlane.forget_topics": ONE_TOPIC,
    "runtime/recorder.py:Recorder._apply_topic_changes": PARTITIONS,
    "runtime/recorder.py:Recorder._end_transaction": ONE_TRANSACTION,
    "runtime/engine.py:Engine.fire": PARTITIONS,
    "runtime/memory.py:Memory.groups_bytes": PARTITIONS,
    "runtime/group_commit.py": "logs of one sync: 50 and those that are open (256)",
    "runtime/janitor.py": PARTITIONS,
    "runtime/ledger.py": ONE_TRANSACTION,
    "runtime/recorder.py:Recorder.finish_transactions": "transactions that a crash has cut off, each begun once: transactional.ids.max.bytes",
    "runtime/node.py": ENDS,
    "runtime/shards.py": "producers of a partition that is loaded: producer.ids.max.bytes",
    "runtime/share_states.py": PARTITIONS,
    # operators
    "admin/app.py:_events": "10,000 events, in one response: events.max.bytes",
    "admin/control.py:GroupControl._release": "faults in force, which an operator has put there: 1 request each",
    "admin/control_records.py": IN_A_THREAD,
    "admin/control_state.py": "a generator of portions, between which it gives way: 1,000 offsets",
    "admin/operations.py": A_MISTAKE,
    "admin/control_waiting.py:find_difference": ONE_GROUP,
    "admin/control_waiting.py:_count_names": "10,000 names, where it stops",
    "control/journal.py": "error codes of one response: 200,000",
    "control/lint.py": IN_A_THREAD,
    "control/subject.py": "names of one request: " + FRAME,
    "control/timeline.py": "in a thread: 10,000 events",
    "control/share_lint.py": IN_A_THREAD,
    "control/streams_lint.py": IN_A_THREAD,
    "control/verify.py": "in a thread: 5,000,000 comparisons (decoded.WORK_MAX)",
    "admin/views.py": PARTITIONS,
    "admin/watch.py": "100 groups of an overview",
    "server/verbs/clock.py": "timers that a glance shows (100), and " + PARTITIONS,
    "server/verbs/groups.py:GroupVerbs._remove": ONE_GROUP,
    "server/verbs/groups.py:GroupVerbs._resolve": ONE_GROUP,
    "server/verbs/overview.py:OverviewVerbs._lag": "20,000 offsets of an overview, counted down: some ten milliseconds",
    "server/verbs/overview.py:OverviewVerbs.look": "ids of the groups of a partition of 50, compared once",
    "server/verbs/overview.py:OverviewVerbs.positions": ONE_GROUP,
    "server/verbs/records.py": "runs of records in flight that are shown: 10,000",
    "server/verbs/queues.py": "a portion, which has 1 partition of one queue (admin/portions)",
    "server/verbs/state.py:StateVerbs.seed": "a portion of 100 topics or 1,000 offsets (admin/portions)",
}


def bound_of(loop: Loop) -> str | None:
    """What stands for a loop: its function, its file, or its folder."""
    folders = ["/".join(loop.path.split("/")[:depth]) + "/" for depth in range(1, loop.path.count("/") + 1)]
    names = (f"{loop.path}:{loop.function}", loop.path, *reversed(folders))
    return next((name for name in names if name in BOUNDS), None)


@cache
def all_loops() -> tuple[Loop, ...]:
    """Those of the whole tree, which take two seconds to find: not in each worker that collects the tests."""
    return tuple(find_loops())


def test_every_loop_gives_way_or_says_its_bound() -> None:
    unbounded = [loop for loop in all_loops() if bound_of(loop) is None]
    shown = [f"coordinator/{one.path}:{one.line} {one.function}: for ... in {one.goes_through}" for one in unbounded]
    assert not shown, (
        "loops over a request or over state: pace them (core/pace), or say in BOUNDS what bounds them:\n"
        + "\n".join(shown)
    )


def test_every_bound_has_a_number_or_a_setting() -> None:
    """A bound by words alone ("an operator's verb") has hidden steps of half a second."""
    without = {name: bound for name, bound in BOUNDS.items() if not re.search(r"\d|\w\.max\.bytes", bound)}
    assert not without


def test_every_bound_is_of_a_loop() -> None:
    assert {bound_of(loop) for loop in all_loops()} - {None} == set(BOUNDS)


FOUND: Final = [
    "for key in effect.keys:\n  do(key)",
    "return {key: do(key) for key in told.topics.items()}",
    "for topic in request.topics:\n  do(topic)",
    "found = [do(topic) for topic in request.topics]",
    "for topic in request.topics:\n  yield\n  found = [do(one) for one in topic.partitions]",
    "for topic in request.topics:\n  for one in topic.deep:\n    do(one)",
    "for group in sorted(shard.groups.values()):\n  do(group)",
    "return {name for name in catalog.topics_by_name if name}",
    "for one in request.entries:\n  def inner():\n    yield\n  do(inner)",
    "named = sorted(request.topics)\nfor topic in named:\n  do(topic)",
    "members: list[int] = list(group.members)\nreturn any(do(one) for one in members)",
    "if names := request.names:\n  return b''.join([do(one) for one in names])",
    "return dict((one, do(one)) for one in request.entries)",
    "return tuple(map(do, request.topics))",
    "return sorted(group.members.values(), key=do)",
    "entries = list(request.entries)\nentries.sort(key=do)",
    "return do(list(shard.offsets.keys(name)))",
    "return sum(cut_offsets(name))",
    "for key in cut_offsets(name):\n  do(key)",
    "for key in self._pending.values():\n  do(key)",
]
LEFT: Final = [
    "for topic in request.topics:\n  if pace.is_due():\n    yield\n  do(topic)",
    "for topic in request.topics:\n  for one in topic.deep:\n    yield from do(one)",
    "found = yield from map_in_steps(request.topics, do)",
    "for kind in KINDS:\n  do(kind)",
    "for number in range(3):\n  do(request)",
    "return tuple(request.topics)",
    "return tuple(map(len, request.topics))",
    "return max(0, request.timeout_ms)",
]


@pytest.mark.parametrize("body", FOUND)
def test_a_loop_that_does_not_give_way_is_found(body: str) -> None:
    assert loops_of(_function(body), "x.py")


@pytest.mark.parametrize("body", LEFT)
def test_a_loop_that_gives_way_is_left_alone(body: str) -> None:
    assert not loops_of(_function(body), "x.py")


def _function(body: str) -> str:
    return "def handle(request, catalog, shard, pace):\n" + "\n".join(f"  {line}" for line in body.split("\n"))
