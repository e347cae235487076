"""Faults of a programmer's kind where two features meet, at the edges of the operator's calls and in the group kinds.

They were chosen by a reader who had not opened the tests, as those of `all_parts.py` were, and have the same form.
"""

from typing import Final

from tests.mutation.all_parts import ADMIN, CORE, DEFAULT, NEAREST, NOBODY, RUNTIME, SERVER, PlantedFault

SHARED = "tests/core/kinds/share/test_share_groups.py"
SCRIPTS = ("tests/core/test_scripts.py", "tests/core/test_model.py")

SEVENTH: Final = (
    PlantedFault(
        "what a share consumer fetches does not count for the quota of its client id",
        "coordinator/server/quotas.py",
        "self._quotas.charge_share_fetch(rules, response, principal, connection.client_id, now_s)",
        "self._quotas.charge_share_fetch(rules, response, principal, None, now_s)",
        ("tests/server/test_quotas.py",), ("tests/server/test_quotas.py",),
        SERVER, NEAREST),
    PlantedFault(
        "a topic that is created with assignments costs as many tokens as one with the default number of partitions",
        "coordinator/runtime/mutation_quota.py",
        "else count_partitions(topic, catalog)",
        "else (catalog.settings.num_partitions if topic.num_partitions == -1 else topic.num_partitions)",
        ("tests/server/test_quotas.py",), ("tests/server/test_quotas.py",),
        RUNTIME, NEAREST),
    PlantedFault(
        "a group that has lost its members by a move loses them by each later move as well",
        "coordinator/runtime/failover.py",
        "self._memberless.pop(partition.index, {}).items()",
        "self._memberless.get(partition.index, {}).items()",
        ("tests/control/test_brokers.py",), ("tests/control/test_brokers.py",),
        RUNTIME, NOBODY),
    PlantedFault(  # at first, a line of `Transactions.resume_timeouts` that has since given way to this one
        "a transaction whose coordinator is being loaded times out",
        "coordinator/runtime/engine.py",
        "now_ms, TIMERS_A_TURN, world.coordinators.is_transaction_served\n",
        "now_ms, TIMERS_A_TURN\n",
        ("tests/control/test_brokers.py",),
        ("tests/control/test_brokers.py", "tests/runtime/test_transactions_while_loading.py"),
        RUNTIME, NOBODY),
    PlantedFault(
        "locks and transactions that end just when the clock arrives are not told",
        "coordinator/server/verbs/clock.py",
        "if at_ms is not None and at_ms <= until_ms:",
        "if at_ms is not None and at_ms < until_ms:",
        ("tests/control/test_what_fires.py", "tests/control/test_clock_steps.py"),
        ("tests/control/test_what_fires.py", "tests/control/test_clock_steps.py"),
        SERVER, NEAREST),
    PlantedFault(
        "a client learns of topics that it may not describe, if they are in the target of a member",
        "coordinator/runtime/authorization/group_needs.py",
        "            *(one.topic_name for one in member.target_assignment.topic_partitions),\n",
        "",
        ("tests/runtime/test_authorization.py",), ("tests/runtime/test_authorization.py",),
        RUNTIME, NOBODY),
    PlantedFault(
        "a client that asks for all share offsets learns the names of topics that it may not describe",
        "coordinator/runtime/authorization/group_needs.py",
        "            elif wanted.topics is not None:\n                denied.append(_deny_share_offsets(topic))\n",
        "            else:\n                denied.append(_deny_share_offsets(topic))\n",
        ("tests/runtime/test_authorization.py",),
        ("tests/runtime/test_authorization.py", "tests/runtime/test_share_group_offsets.py"),
        RUNTIME, NOBODY),
    PlantedFault(
        "of very many events at once a watcher is told the oldest",
        "coordinator/admin/watch.py",
        "[-EVENTS_MAX:]",
        "[:EVENTS_MAX]",
        ("tests/admin/test_watch.py",), ("tests/admin/test_watch.py",),
        ADMIN, NEAREST),
    PlantedFault(
        "a token with a colon is no good password",
        "coordinator/admin/access.py",
        '.decode().partition(":")[2]',
        '.decode().rpartition(":")[2]',
        ("tests/admin/test_access.py",), ("tests/admin/test_access.py",),
        ADMIN, NEAREST),
    PlantedFault(  # at first, in a comparison that has since given way to this one
        "records that their member releases count as some whose lock ended, if they come again with others",
        "coordinator/control/share_lint.py",
        "    if one.first < first:\n",
        "    if one.first <= first:\n",
        ("tests/control/test_records.py",), ("tests/control/test_lint.py",),
        ADMIN, NOBODY),
    PlantedFault(
        "a step of a scenario with a verb and a fault's condition is taken",
        "coordinator/control/scenarios.py",
        " or (is_verb and step.on is not None):",
        ":",
        ("tests/control/test_scenarios.py",), ("tests/control/test_scenarios.py",),
        ADMIN, NOBODY),
    PlantedFault(
        "what is expected in order has to come after the last one of what was expected before",
        "coordinator/control/verify.py",
        "for place in places:",
        "for place in reversed(list(places)):",
        ("tests/control/test_verify.py",), ("tests/control/test_verify.py",),
        ADMIN, NOBODY),
    PlantedFault(
        "a fault for a group does not meet the FindCoordinator of older clients",
        "coordinator/control/subject.py",
        "yield from filter(None, (body.key, *body.coordinator_keys))",
        "yield from filter(None, body.coordinator_keys)",
        ("tests/control/test_journal.py",), ("tests/control/test_faults.py",),
        SERVER, NOBODY),
    PlantedFault(
        "the next broker of a rolling restart stops before everything is loaded",
        "coordinator/server/verbs/brokers.py",
        "                    while node.world.coordinators.loads:\n",
        "                    if node.world.coordinators.loads:\n",
        ("tests/control/test_brokers.py",), ("tests/control/test_brokers.py",),
        SERVER, NEAREST),
    PlantedFault(
        "an address that goes on trying is never taken again: what was refused counts for its rate",
        "coordinator/server/admission.py",
        "        if rate.throttle_ms(quota, now_s) > 0:\n            return True\n        rate.add(1, now_s)\n        return False\n",
        "        rate.add(1, now_s)\n        return rate.throttle_ms(quota, now_s) > 0\n",
        ("tests/server/test_quotas.py",), ("tests/server/test_quotas.py", "tests/server/test_connection.py", "tests/server/test_listener.py"),
        SERVER, NOBODY),
    PlantedFault(
        "a classic member that rejoins keeps the rebalance timeout of before",
        "coordinator/core/kinds/classic/join_group.py",
        "        session_timeout_ms=request.session_timeout_ms,\n        rebalance_timeout_ms=_rebalance_timeout_ms(request, call),\n        join_ticket=call.ticket,\n        join_version=call.version,\n    )\n    # The",
        "        session_timeout_ms=request.session_timeout_ms,\n        join_ticket=call.ticket,\n        join_version=call.version,\n    )\n    # The",
        ("tests/core/test_model.py",), SCRIPTS,
        CORE, NOBODY),
    PlantedFault(
        "the session of a static member that returns runs for its new timeout at once",
        "coordinator/core/kinds/classic/static.py",
        "session_timer(group_id, replace(new, session_timeout_ms=old.session_timeout_ms), now_ms)",
        "session_timer(group_id, new, now_ms)",
        SCRIPTS, SCRIPTS,
        CORE, NEAREST),
    PlantedFault(
        "a member that heartbeats from another address is shown with the one of before",
        "coordinator/core/kinds/consumer/consumer_group_heartbeat.py",
        "        and metadata.client_host == call.client_host\n",
        "",
        ("tests/core/kinds/consumer/test_heartbeat.py",), ("tests/core/kinds/consumer/test_heartbeat.py",),
        CORE, NEAREST),
    PlantedFault(
        "what a static member owed when it left for a while is free for nobody",
        "coordinator/core/kinds/consumer/consumer_group_heartbeat.py",
        "away = replace(member, epoch=AWAY, assigned=assigned, pending={})",
        "away = replace(member, epoch=AWAY, assigned=assigned)",
        (*SCRIPTS, "tests/core/kinds/consumer/test_heartbeat.py"), (*SCRIPTS, "tests/core/kinds/consumer/test_heartbeat.py"),
        CORE, NEAREST),
    PlantedFault(
        "a share member is given topics that it no longer subscribes to until there is another target",
        "coordinator/core/kinds/share/share_group_heartbeat.py",
        "assigned = _of_subscription(group.target(member_id), member, transition.topics)",
        "assigned = group.target(member_id)",
        (SHARED,), (SHARED,),
        CORE, NEAREST),
    PlantedFault(
        "where a streams member has an endpoint each of its heartbeats tells all members all endpoints again",
        "coordinator/core/kinds/streams/streams_group_heartbeat.py",
        "(is_told and has_endpoint(member))",
        "has_endpoint(member)",
        ("tests/conformance/test_replay.py",),
        ("tests/core/kinds/streams/test_configuration.py", "tests/core/kinds/streams/test_reconcile.py"),
        CORE, DEFAULT),
    PlantedFault(
        "a producer that comes again keeps the transaction timeout of before",
        "coordinator/core/transactions/init_producer_id.py",
        "        timeout_ms=request.transaction_timeout_ms,\n        previous_producer_id",
        "        previous_producer_id",
        ("tests/core/transactions/test_transactions.py",), ("tests/core/transactions/test_transactions.py",),
        CORE, NOBODY),
    PlantedFault(
        "a commit that names a new partition twice counts as two offsets",
        "coordinator/core/offsets/topic_offsets.py",
        " and (known == count or len(set(partitions)) == count):",
        ":",
        ("tests/core/test_store.py",), ("tests/core/test_store.py",),
        CORE, NEAREST),
)  # fmt: skip
