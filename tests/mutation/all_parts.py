"""Faults of a programmer's kind in all parts of the new code, each planted by a reader who had not read the tests.

The tests that were to find a fault at first are the nearest ones, chosen by their paths, and then all of the default run that
may touch the line. What survived was found afterwards by a generator, property or story that was made stronger. What made no
difference that anybody could notice is left out.
"""

from typing import Final, NamedTuple

NEAREST, DEFAULT, NOBODY = "nearest", "default", "nobody"

CORE = ("tests/core", "tests/conformance", "tests/simulation")
RUNTIME = ("tests/runtime", "tests/conformance", "tests/simulation", "tests/control")
DATAPLANE = ("tests/dataplane", "tests/conformance", "tests/simulation", "tests/server")
SERVER = ("tests/server", "tests/control", "tests/admin", "tests/conformance")
ADMIN = ("tests/admin", "tests/control", "tests/pytest_muster")
STORAGE = ("tests/storage", "tests/runtime", "tests/simulation", "tests/control")
HISTORY = ("tests/pipeline/test_history.py", "tests/pipeline/test_live.py", "tests/pipeline/test_golden.py",
           "tests/pipeline/test_ownership.py", "tests/pipeline/test_tables_groups.py", "tests/cli")  # fmt: skip
CLIENT = ("tests/client", "tests/cli", "tests/clients")
PLUGIN = ("tests/pytest_muster", "tests/admin")


class PlantedFault(NamedTuple):
    """One change of a line, the tests that find it now, those that were to find it at first, and which of these did."""

    what: str
    path: str
    line: str
    instead: str
    tests: tuple[str, ...]
    nearest: tuple[str, ...]
    default: tuple[str, ...]
    found_by: str

    @property
    def was_found(self) -> bool:
        """Whether the nearest tests found it at first."""
        return self.found_by == NEAREST

    @property
    def was_guarded(self) -> bool:
        """Whether the default run found it at first."""
        return self.found_by != NOBODY


FIFTH: Final = (
    PlantedFault(
        "a member's pattern matches topics that it may read, and not those that it may describe",
        "coordinator/core/kinds/consumer/patterns.py",
        "rights.may(Operation.DESCRIBE, Resource.TOPIC, name)",
        "rights.may(Operation.READ, Resource.TOPIC, name)",
        ("tests/core/kinds/consumer/test_patterns.py",), ("tests/core/kinds/consumer/test_patterns.py",),
        CORE, NEAREST),
    PlantedFault(
        "after a start the members of a share group have the session timeout of consumer groups",
        "coordinator/core/kinds/share/timers.py",
        "env.limits.group_share_session_timeout_ms",
        "env.limits.group_consumer_session_timeout_ms",
        ("tests/runtime/test_settings_of_kinds.py",), ("tests/core/kinds/share/test_share_groups.py",),
        CORE, NOBODY),
    PlantedFault(
        "an endpoint is shown with its active partitions as its standby ones",
        "coordinator/core/kinds/streams/endpoints.py",
        "            _partitions(member.assigned.standby, configured, topics),\n",
        "            _partitions(member.assigned.active, configured, topics),\n",
        ("tests/conformance/test_replay.py",), ("tests/core/kinds/streams/test_configuration.py", "tests/core/kinds/streams/test_reconcile.py"),
        CORE, DEFAULT),
    PlantedFault(
        "the sizes of repartition topics are decided in another order than by Kafka",
        "coordinator/core/kinds/streams/sizes.py",
        "(turn if reader > at else turn + 1, reader)",
        "(turn, reader)",
        ("tests/core/kinds/streams/test_sizes.py",), ("tests/core/kinds/streams/test_sizes.py",),
        CORE, NOBODY),
    PlantedFault(
        "a streams application that was asked to stop is told so again when it is started the next time",
        "coordinator/core/kinds/streams/group.py",
        "            shutdown_by=self.shutdown_by if members else None,\n",
        "",
        ("tests/conformance/test_replay.py",), ("tests/core/kinds/streams/test_reconcile.py",),
        CORE, DEFAULT),
    PlantedFault(
        "an administrator's marker of an older epoch ends the offsets of a newer transaction",
        "coordinator/runtime/write_txn_markers.py",
        "    if error := known.check_marker(*producer, end, one.transaction_version):\n        return error\n",
        "",
        ("tests/dataplane/test_transactions.py",), ("tests/dataplane/test_transactions.py", "tests/runtime/test_transactions_while_loading.py"),
        RUNTIME, NOBODY),
    PlantedFault(
        "a batch that fails again is cut by what is left of it, and not by what it was",
        "coordinator/core/share_partitions/acquire.py",
        "(run.batch_last - run.batch_first + 1) >>",
        "run.size >>",
        ("tests/conformance/test_replay.py",), ("tests/core/share_partitions/test_share_partitions.py",),
        CORE, DEFAULT),
    PlantedFault(
        "records of aborted transactions do not count as complete",
        "coordinator/core/share_partitions/aborted.py",
        "before.complete_count + count_complete(archived)",
        "before.complete_count",
        ("tests/core/share_partitions/test_aborted.py",), ("tests/core/share_partitions/test_aborted.py",),
        CORE, NEAREST),
    PlantedFault(
        "of the admin port's connections the oldest one ends, though another one has been silent for longer",
        "coordinator/admin/http.py",
        "            del self._open[scope]\n            self._open[scope] = None\n",
        "            self._open[scope] = None\n",
        ("tests/admin/test_http.py",), ("tests/admin/test_http.py",),
        ADMIN, NEAREST),
    PlantedFault(
        "a transaction times out while its coordinator is loaded",
        "coordinator/core/transactions/transactions.py",
        "            if is_served(name):\n",
        "            if True:\n",
        ("tests/control/test_brokers.py", "tests/runtime/test_transactions_while_loading.py"), ("tests/control/test_brokers.py", "tests/runtime/test_transactions_while_loading.py"),
        RUNTIME, NEAREST),
    PlantedFault(
        "a share partition of which the number of done records is not known is told a lag",
        "coordinator/runtime/share_group_offsets.py",
        "    if start == NO_OFFSET or count == UNKNOWN_COUNT:\n",
        "    if start == NO_OFFSET:\n",
        ("tests/runtime/test_share_group_offsets.py",), ("tests/runtime/test_share_states.py",),
        RUNTIME, NOBODY),
    PlantedFault(
        "a long commit by topic ids is answered as if all were partitions of its first topic",
        "coordinator/runtime/long_commits.py",
        'topic.name or getattr(topic, "topic_id", "")',
        "topic.name",
        ("tests/runtime/test_long_commits.py",), ("tests/runtime/test_long_commits.py",),
        RUNTIME, NOBODY),
    PlantedFault(
        "a transaction counts as complete though the sync of its marker has failed",
        "coordinator/runtime/ledger.py",
        "        self._resting = self._without(self._resting, lost)\n",
        "",
        ("tests/server/test_group_commit.py",), ("tests/server/test_group_commit.py", "tests/dataplane/test_failed_sync.py"),
        (*RUNTIME, *DATAPLANE), NOBODY),
    PlantedFault(
        "the journal has no user for a client that has asked for anything before it authenticated",
        "coordinator/server/gate.py",
        "            if client is None or client.principal is not connection.principal:\n",
        "            if client is None:\n",
        ("tests/server/test_sasl.py",), ("tests/control/test_journal.py", "tests/control/test_faults.py"),
        SERVER, NOBODY),
    PlantedFault(
        "a fetch that is emptied by a quota counts for it: the consumer never gets anything again",
        "coordinator/server/quotas.py",
        "        self._rates[CONSUMER, found[0]].add(-size, now_s)\n",
        "",
        ("tests/server/test_quotas.py",), ("tests/server/test_quotas.py",),
        SERVER, NEAREST),
    PlantedFault(
        "the state of a prefix has the queues of all share groups",
        "coordinator/server/verbs/queues.py",
        "topic is not None and key.group_id.startswith(prefix) and",
        "topic is not None and",
        ("tests/control/test_records.py", "tests/control/test_operator.py"), ("tests/control/test_records.py", "tests/control/test_operator.py"),
        SERVER, NEAREST),
    PlantedFault(
        "a request that came right behind a token waits for ever where tokens are checked by a thread",
        "coordinator/server/authenticator.py",
        "            self._connections.enqueue(connection)\n",
        "",
        ("tests/server/test_sasl.py",), ("tests/server/test_sasl.py",),
        SERVER, NOBODY),
    PlantedFault(
        "a reset starts a broker once more that was stopped and started",
        "coordinator/server/virtual_brokers.py",
        "        self._closed.discard(node_id)\n",
        "",
        ("tests/control/test_brokers.py",), ("tests/control/test_brokers.py",),
        SERVER, NOBODY),
    PlantedFault(
        "a fetch of committed records that waits for more bytes misses those of a transaction that has ended meanwhile",
        "coordinator/dataplane/long_polls.py",
        "            one.is_stale = True\n            if one.is_reading:\n",
        "            if one.is_reading:\n",
        ("tests/dataplane/test_fetch.py",), ("tests/dataplane/test_fetch.py", "tests/dataplane/test_repeated_fetches.py"),
        DATAPLANE, NOBODY),
    PlantedFault(
        "a fetch session that is in use keeps one that nobody uses from being evicted",
        "coordinator/dataplane/sessions.py",
        "        self._sessions[session.id] = self._sessions.pop(session.id)\n",
        "",
        ("tests/dataplane/test_fetch.py",), ("tests/dataplane/test_fetch.py",),
        DATAPLANE, NEAREST),
    PlantedFault(
        "after a failed sync a share consumer has acquired records that the response does not have",
        "coordinator/dataplane/withdrawal.py",
        'records=b"", acquired_records=())',
        'records=b"")',
        ("tests/dataplane/test_failed_sync.py",), ("tests/dataplane/test_failed_sync.py",),
        DATAPLANE, NOBODY),
    PlantedFault(
        "an offset at a time is told to a reader of committed records, though it may not read it",
        "coordinator/dataplane/list_offsets.py",
        "    return found if found is not None and found[0] < end else NONE\n",
        "    return found if found is not None else NONE\n",
        ("tests/dataplane/test_list_offsets.py",), ("tests/dataplane/test_list_offsets.py",),
        DATAPLANE, NEAREST),
    PlantedFault(
        "a consumer that waits learns only later that its records were deleted",
        "coordinator/dataplane/delete_records.py",
        "        state.polls.wake((topic, index))\n",
        "",
        ("tests/dataplane/test_fetch.py",), ("tests/dataplane/test_steps.py", "tests/dataplane/test_fetch.py"),
        DATAPLANE, NOBODY),
    PlantedFault(
        "a fetch that has waited while its topic was created anew gets records of the new one",
        "coordinator/dataplane/fetch.py",
        "    if wanted.by_ids and state.name_of(asked.topic_id) != name:  # created anew while the fetch has waited\n"
        "        return _refuse(index, ErrorCode.INCONSISTENT_TOPIC_ID)\n",
        "",
        ("tests/dataplane/test_fetch.py",), ("tests/dataplane/test_fetch.py",),
        DATAPLANE, NEAREST),
    PlantedFault(
        "a page of topics goes on within each of them at the partition of the first one",
        "coordinator/dataplane/describe_topic_partitions.py",
        "cursor.partition_index if cursor is not None and cursor.topic_name == name else 0",
        "cursor.partition_index if cursor is not None else 0",
        ("tests/conformance/test_replay.py",), ("tests/dataplane/test_metadata.py",),
        DATAPLANE, DEFAULT),
    PlantedFault(
        "a fault counts no request that an older one meets",
        "coordinator/control/faults.py",
        "        candidates = [rule for rule in self._rules.values() if rule.note_request(subject)]\n",
        "        candidates = (rule for rule in self._rules.values() if rule.note_request(subject))\n",
        ("tests/control/test_faults.py",), ("tests/control/test_faults.py",),
        SERVER, NEAREST),
    PlantedFault(
        "a streams member that has kept its tasks for long is not found once it has given them up",
        "coordinator/control/streams_lint.py",
        "            if is_late or kept[counted] < KEPT_MIN:\n                kept[counted] = kept[counted] + 1 if is_late else 0\n",
        "            kept[counted] = kept[counted] + 1 if is_late else 0\n",
        ("tests/control/test_streams_groups.py",), ("tests/control/test_streams_groups.py", "tests/control/test_lint.py"),
        SERVER, NOBODY),
    PlantedFault(
        "a command with a wrong password tries it at every broker",
        "coordinator/client/cluster.py",
        "            except AuthenticationError:\n                raise  # to try elsewhere may lock the user out\n",
        "",
        ("tests/client/test_cluster.py",), ("tests/client/test_cluster.py",),
        CLIENT, DEFAULT),
    PlantedFault(
        "a command fails with a traceback where a partition has no leader",
        "coordinator/client/offsets.py",
        "            if key in wanted and one.leader_id >= 0:\n",
        "            if key in wanted:\n",
        ("tests/client/test_cluster.py",), ("tests/client/test_cluster.py",),
        CLIENT, DEFAULT),
    PlantedFault(
        "nobody can wait until a member owns nothing of a topic",
        "coordinator/admin/control_waiting.py",
        "for topic, partitions in topics.items() if partitions}",
        "for topic, partitions in topics.items()}",
        ("tests/admin/test_waiting.py",), ("tests/admin/test_control.py",),
        ADMIN, NOBODY),
    PlantedFault(
        "the page of a site whose name ends like this server's may change it",
        "coordinator/admin/http.py",
        'origin.lower().partition("://")[2] == host.lower()',
        "origin.lower().endswith(host.lower())",
        ("tests/admin/test_http.py",), ("tests/admin/test_http.py",),
        ADMIN, NOBODY),
    PlantedFault(
        "a compaction keeps the value of a transaction though a plain record came before its commit",
        "storage/appended_keys.py",
        "if commits and latest.get(key, -1) < at])",
        "if commits])",
        ("tests/storage/test_appended_keys.py",), ("tests/storage/test_appended_keys.py",),
        STORAGE, NEAREST),
    PlantedFault(
        "where producer ids are full, one with an open transaction is forgotten: committed records are readable never again",
        "storage/producers.py",
        "        idle = [(producer.last_offset, one) for one, producer in first if producer.first_open_offset is None]\n",
        "        idle = [(producer.last_offset, one) for one, producer in first]\n",
        ("tests/storage/test_producers.py",), ("tests/storage/test_producers.py",),
        STORAGE, NEAREST),
    PlantedFault(
        "a reset behind one that was killed cannot be read back at the next start",
        "storage/pending_reset.py",
        "            file.truncate(0)\n",
        "",
        ("tests/control/test_restarts.py",), ("tests/storage/test_removal.py", "tests/control/test_restarts.py"),
        STORAGE, NOBODY),
    PlantedFault(
        "a topic cannot be deleted while a later deletion's files are there and an earlier one's are not",
        "storage/removal.py",
        "        self._number = max(found.values(), default=-1)\n",
        "        self._number = len(found) - 1\n",
        ("tests/storage/test_removal.py",), ("tests/storage/test_removal.py",),
        STORAGE, NOBODY),
    PlantedFault(
        "when a static member returns, all members count as heard from: a timeout is told as a leave",
        "pipeline/history/classic.py",
        "            self._alive = {member_id: self._alive.get(member_id, record.record_ts) for member_id in now}\n",
        "            self._alive = dict.fromkeys(now, record.record_ts)\n",
        ("tests/pipeline/test_history.py",), ("tests/pipeline/test_history.py",),
        HISTORY, NOBODY),
    PlantedFault(
        "a member that has come and gone before the next epoch is told as one that has joined",
        "pipeline/history/epochs.py",
        '            self._came.discard(record.member_id or "")\n',
        "",
        ("tests/pipeline/test_history.py",), ("tests/pipeline/test_history.py",),
        HISTORY, NOBODY),
    PlantedFault(
        "a migration of which a compaction has removed records counts as a deletion",
        "pipeline/history/group.py",
        "    is_next = following.log_offset == tombstone.log_offset + 1 or following.record_ts == tombstone.record_ts\n",
        "    is_next = following.log_offset == tombstone.log_offset + 1\n",
        ("tests/pipeline/test_history.py",), ("tests/pipeline/test_history.py",),
        HISTORY, NOBODY),
    PlantedFault(
        "the faults of a test's last lines are in force after it",
        "pytest-muster/src/pytest_muster/plugin.py",
        "    yield inner\n    inner.reset()\n",
        "    yield inner\n",
        ("tests/pytest_muster/test_plugin.py",), ("tests/pytest_muster/test_plugin.py",),
        PLUGIN, NEAREST),
    PlantedFault(
        "the reset of a test removes what its session has named, where the module has a scope as well",
        "pytest-muster/src/pytest_muster/muster.py",
        "        inner._kept = [*self._kept, *(",
        "        inner._kept = [*(",
        ("tests/pytest_muster/test_muster.py", "tests/pytest_muster/test_plugin.py"), ("tests/pytest_muster/test_muster.py", "tests/pytest_muster/test_plugin.py"),
        PLUGIN, NEAREST),
)  # fmt: skip

SIXTH: Final = (
    PlantedFault(
        "a target that an operator has forced is replaced at the next heartbeat if it leaves a partition out",
        "coordinator/core/kinds/share/verbs.py",
        "    transition.group = replace(transition.group, forced_epoch=transition.group.epoch)\n",
        "",
        ("tests/core/kinds/share/test_share_groups.py",), ("tests/core/kinds/share/test_share_groups.py",),
        CORE, NEAREST),
    PlantedFault(
        "an application whose members all leave within the initial delay is never assigned anything again",
        "coordinator/core/kinds/streams/timers.py",
        "    if not group.members or configured is None or group.epoch <= group.assignment_epoch:\n        return transition.result()\n",
        "    if not group.members or configured is None or group.epoch <= group.assignment_epoch:\n        return Result()\n",
        ("tests/conformance/test_replay.py",), ("tests/core/kinds/streams/test_reconcile.py",),
        CORE, DEFAULT),
    PlantedFault(
        "tasks without a state have standbys",
        "coordinator/core/kinds/streams/target.py",
        "SubtopologyTasks(each.task_count, bool(each.changelogs))",
        "SubtopologyTasks(each.task_count, True)",
        ("tests/conformance/test_replay.py",), ("tests/core/assignors/test_sticky_tasks.py",),
        CORE, DEFAULT),
    PlantedFault(
        "after a start patterns do not match topics that were created since",
        "coordinator/core/kinds/consumer/patterns.py",
        "    if oldest < topics.created_version or oldest > topics.version:\n",
        "    if oldest < topics.created_version:\n",
        ("tests/core/kinds/consumer/test_patterns.py",), ("tests/core/kinds/consumer/test_patterns.py",),
        CORE, NEAREST),
    PlantedFault(
        "records that are archived as their lock ends are told as available again",
        "coordinator/dataplane/share/deliveries.py",
        "            if by == LOCK and delivery_state == DeliveryState.AVAILABLE:\n",
        "            if by == LOCK:\n",
        ("tests/control/test_records.py",), ("tests/dataplane/test_share_fetch.py",),
        DATAPLANE, NOBODY),
    PlantedFault(
        "the commits that a group has lost already are those that it loses next",
        "coordinator/runtime/failover.py",
        "        if not response.refusal:\n            history.forget(commits)\n",
        "",
        ("tests/control/test_brokers.py",), ("tests/control/test_brokers.py",),
        RUNTIME, NEAREST),
    PlantedFault(
        "a snapshot has some of what was appended while it was read",
        "coordinator/runtime/snapshot.py",
        "file.pread(start, min(STEP_BYTES, size - start))",
        "file.pread(start, STEP_BYTES)",
        ("tests/runtime/test_snapshot.py",), ("tests/runtime/test_snapshot.py",),
        RUNTIME, NEAREST),
    PlantedFault(
        "at a step of the protocol that is held, one request is held and the next one passes",
        "coordinator/server/verbs/requests.py",
        "FaultSpec(action, Match(api=api, group=group_id, client=client), count=None)",
        "FaultSpec(action, Match(api=api, group=group_id, client=client))",
        ("tests/control/test_operator.py",), ("tests/control/test_operator.py", "tests/control/test_faults.py"),
        SERVER, NOBODY),
    PlantedFault(
        "a reset that keeps a group keeps its members out",
        "coordinator/server/verbs/groups.py",
        "        yield from self.keep_out_in_steps(names)\n",
        "        yield from self.keep_out_in_steps((yield from self.names_in_steps(prefix)))\n",
        ("tests/control/test_leftovers.py",), ("tests/control/test_leftovers.py", "tests/control/test_operator.py"),
        SERVER, NOBODY),
    PlantedFault(
        "sessions do not end while a client has sent requests behind one that waits",
        "coordinator/server/watermark.py",
        "if left <= seconds or not connection.backlog or not connection.may_decide():",
        "if left <= seconds or not connection.backlog:",
        ("tests/server/test_watermark.py",), ("tests/server/test_poller_waits.py", "tests/server/test_poller.py"),
        SERVER, NOBODY),
    PlantedFault(
        "a user of OAUTHBEARER whose name has a comma is refused with its own authorization id",
        "coordinator/server/sasl/oauthbearer.py",
        '(match["authorization"] or "").replace("=2C", ",").replace("=3D", "=")',
        'match["authorization"] or ""',
        ("tests/server/test_sasl.py",), ("tests/server/test_sasl.py",),
        SERVER, NOBODY),
    PlantedFault(
        "the producers of deleted topics count for ever among those that may be remembered",
        "coordinator/dataplane/topic_logs.py",
        "        if gone is not None:\n            gone.producers.share(ProducerCount())\n",
        "",
        ("tests/dataplane/test_topic_logs.py",), ("tests/dataplane/test_topic_logs.py", "tests/storage/test_producers.py"),
        DATAPLANE, NOBODY),
    PlantedFault(
        "a member that wants so many records of all its partitions gets so many of each",
        "coordinator/dataplane/share/fetching.py",
        "        left -= acquisition.count\n",
        "",
        ("tests/dataplane/test_share_fetch.py",), ("tests/dataplane/test_share_fetch.py",),
        DATAPLANE, DEFAULT),
    PlantedFault(
        "a lock that has ended once counts again with each later delivery",
        "coordinator/control/share_lint.py",
        "    held[:] = [rest for one in held for rest in _without(one, run.first_offset, run.last_offset)]\n",
        "",
        ("tests/control/test_records.py",), ("tests/control/test_lint.py",),
        SERVER, DEFAULT),
    PlantedFault(
        "a command authenticates again only when the broker has closed its connection",
        "coordinator/client/connection.py",
        "began_s + RENEWAL_SHARE * self._security.authenticate(self)",
        "began_s + self._security.authenticate(self)",
        ("tests/client/test_cluster.py",), ("tests/client/test_cluster.py", "tests/cli/test_command_config.py"),
        CLIENT, NOBODY),
    PlantedFault(
        "a wait for a group's coordinator is over before that has loaded the group",
        "coordinator/admin/control_waiting.py",
        "            if coordinator.is_loading or coordinator.broker != body.coordinator:\n",
        "            if coordinator.broker != body.coordinator:\n",
        ("tests/control/test_brokers.py",), ("tests/admin/test_control.py", "tests/control/test_brokers.py"),
        ADMIN, NOBODY),
    PlantedFault(
        "a power cut after a repair leaves a segment without its records",
        "storage/repair.py",
        "        file.sync()\n",
        "",
        ("tests/storage/test_repair.py",), ("tests/storage/test_repair.py",),
        STORAGE, NEAREST),
    PlantedFault(
        "records without a time become younger by a compaction: retention keeps them",
        "storage/cleaner.py",
        "        if self.segment.modified_ms >= 0:\n            self._file.set_modified_ms(self.segment.modified_ms)\n",
        "",
        ("tests/storage/test_upkeep.py", "tests/storage/test_compaction.py"), ("tests/storage/test_upkeep.py", "tests/storage/test_compaction.py"),
        STORAGE, NEAREST),
    PlantedFault(
        "a member that may have been removed with all the others is told to have left",
        "pipeline/history/departures.py",
        "    return not (is_eager and stayed and are_busy)\n",
        "    return not (is_eager and are_busy)\n",
        ("tests/pipeline/test_history.py",), ("tests/pipeline/test_history.py",),
        HISTORY, NEAREST),
    PlantedFault(
        "the clock that a test has stopped stands still in the next one, where the module has names of its own",
        "pytest-muster/src/pytest_muster/muster.py",
        "        if self.clock.is_set or (kept and not self.prefix):\n            self.clock.run()\n",
        "",
        ("tests/pytest_muster/test_muster.py", "tests/pytest_muster/test_plugin.py"), ("tests/pytest_muster/test_muster.py", "tests/pytest_muster/test_plugin.py"),
        PLUGIN, NEAREST),
)  # fmt: skip
