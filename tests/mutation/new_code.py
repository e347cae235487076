"""Faults of a programmer's kind in code that is new, chosen by a reader of that code alone, before the tests were read.

Each is one change, as those of `tests.mutation.limits`, which plants them, too. `WAS_FOUND` are those that the nearest tests
found at first; tests were written for the others afterwards. What made no difference that anybody could notice is left out.
"""

from typing import Final, NamedTuple


class Fault(NamedTuple):
    """A line of a file, what it becomes, the tests that must fail then, and whether they did at first."""

    what: str
    path: str
    line: str
    instead: str
    tests: tuple[str, ...]
    was_found: bool


SHARE_GROUPS = ("tests/core/kinds/share/test_share_groups.py",)
SHARE_STATES = ("tests/core/share_state/test_machine.py",)
SHARE_PARTITIONS = ("tests/core/share_partitions/test_share_partitions.py",)
SHARE_SESSIONS = ("tests/core/share_partitions/test_sessions.py",)
SHARE_FETCH = ("tests/dataplane/test_share_fetch.py",)
STEPS = ("tests/runtime/test_steps.py",)
PRICES = ("tests/core/test_prices.py", "tests/dataplane/test_room.py")
PACKED = ("tests/protocol/test_record_batch_compressed.py",)
CLUSTER = ("tests/pipeline/test_cluster.py",)
LIVE = ("tests/pipeline/test_live.py",)
ACLS = ("tests/core/acls/test_authorizer.py",)
ANY_CLUSTER = ("tests/cli/test_any_cluster.py",)

FAULTS: Final = (
    Fault('a topic that a member names twice counts twice: the group reads it after the member has gone',
          'coordinator/core/kinds/share/share_group_heartbeat.py',
          'tuple(sorted(set(request.subscribed_topic_names)))',
          'tuple(sorted(request.subscribed_topic_names))',
          SHARE_GROUPS, True),
    Fault('a member whose assignment changes within an epoch cannot repeat the heartbeat of the epoch before',
          'coordinator/core/kinds/share/share_group_heartbeat.py',
          'previous = member.previous_epoch if member.epoch == epoch else member.epoch',
          'previous = member.epoch',
          SHARE_GROUPS, False),
    Fault('a member keeps partitions of topics to which it no longer subscribes until the target is computed',
          'coordinator/core/kinds/share/share_group_heartbeat.py',
          'return {topic_id: partitions for topic_id, partitions in target.items() if topic_id in ids}',
          'return target',
          SHARE_GROUPS, False),
    Fault('while the target waits for its interval, each heartbeat raises the epoch',
          'coordinator/core/kinds/share/share_group_heartbeat.py',
          'has_states = transition.group.assignment_epoch >= transition.group.epoch and has_unassigned(transition.group)',
          'has_states = has_unassigned(transition.group)',
          SHARE_GROUPS, True),
    Fault('a lost answer of the share coordinator is never asked for again: the partition is never read',
          'coordinator/core/kinds/share/state_partitions.py',
          'if asked is not None and 0 <= now_ms - asked.at_ms < limits.group_share_initialize_retry_interval_ms:',
          'if asked is not None:',
          SHARE_GROUPS, False),
    Fault('a topic that is read again while its states are deleted stays among the deleted ones',
          'coordinator/core/kinds/share/state_partitions.py',
          'deleting = {topic_id: name for topic_id, name in group.deleting.items() if topic_id not in initializing}',
          'deleting = dict(group.deleting)',
          SHARE_GROUPS, False),
    Fault('when the states of one topic are there, the others that are being begun are forgotten',
          'coordinator/core/kinds/share/state_partitions.py',
          'left = _difference(group.initializing, told.topics)\n    initialized',
          'left = {}\n    initialized',
          SHARE_GROUPS, False),
    Fault('a state that is begun anew has an older snapshot epoch than the one before',
          'coordinator/core/share_state/machine.py',
          'snapshot_epoch=0 if entry is None else entry.head.snapshot_epoch + 1',
          'snapshot_epoch=0',
          SHARE_STATES, True),
    Fault('a cold state is written again at every look',
          'coordinator/core/share_state/machine.py',
          'key, replace(state, snapshot_epoch=state.snapshot_epoch + 1, write_timestamp=now_ms)',
          'key, replace(state, snapshot_epoch=state.snapshot_epoch + 1)',
          SHARE_STATES, True),
    Fault('the log is cut behind the newest snapshot: older states are lost at the next start',
          'coordinator/core/share_state/machine.py',
          'return min([entry.snapshot_offset',
          'return max([entry.snapshot_offset',
          SHARE_STATES, False),
    Fault('after a snapshot a former leader may write again',
          'coordinator/core/share_state/machine.py',
          'entry.leader_epoch = max(entry.leader_epoch, value.leader_epoch)\n        entry.state_epoch',
          'entry.leader_epoch = value.leader_epoch\n        entry.state_epoch',
          SHARE_STATES, False),
    Fault('a single batch that lies across the start offset is written whole',
          'coordinator/core/share_state/machine.py',
          'if len(batches) == 1 and (start_offset == NO_OFFSET or batches[0].first_offset >= start_offset):',
          'if len(batches) == 1:',
          SHARE_STATES, False),
    Fault('one fetch locks more records than the bound',
          'coordinator/core/share_partitions/acquire.py',
          'min(wish.max_records, room), limits',
          'wish.max_records, limits',
          SHARE_PARTITIONS, False),
    Fault('a record that failed often is delivered together with others',
          'coordinator/core/share_partitions/acquire.py',
          'self._take(run, self._size_of_cut(run))\n                return True',
          'self._take(run, self._size_of_cut(run))\n                continue',
          SHARE_PARTITIONS, False),
    Fault('records whose lock has ended, not yet noticed, are acknowledged',
          'coordinator/core/share_partitions/acknowledge.py',
          ' or run.locked_until_ms <= now_ms:',
          ':',
          SHARE_PARTITIONS, True),
    Fault('an acknowledgement with too few types leaves the rest of its range in silence',
          'coordinator/core/share_partitions/acknowledge.py',
          'if len(types) > 1 and len(types) != batch.last_offset',
          'if len(types) > 1 and len(types) > batch.last_offset',
          SHARE_PARTITIONS, True),
    Fault('records that a member holds are archived when compaction has removed their neighbours',
          'coordinator/core/share_partitions/transition.py',
          'if run.state == DeliveryState.AVAILABLE and run.last_offset >= first_offset',
          'if run.last_offset >= first_offset',
          SHARE_PARTITIONS, False),
    Fault('when an error of a partition is over, the client does not hear of it',
          'coordinator/core/share_partitions/sessions.py',
          'self.partitions[partition] = has_error',
          'self.partitions[partition] = False',
          SHARE_SESSIONS, True),
    Fault('a member cannot open its session anew while there are as many sessions as allowed',
          'coordinator/core/share_partitions/sessions.py',
          'if key not in self._sessions and len(self._sessions) >=',
          'if len(self._sessions) >=',
          SHARE_SESSIONS, True),
    Fault('the first partition of a share fetch takes all the bytes',
          'coordinator/dataplane/share/fetching.py',
          'share = max(room // len(able), 1) if able else 0',
          'share = room',
          SHARE_FETCH, False),
    Fault('records of a committed transaction behind an aborted one of the same producer are left out',
          'coordinator/dataplane/share/fetching.py',
          'any(first <= header.base_offset <= last for',
          'any(first <= header.base_offset for',
          SHARE_FETCH, False),
    Fault('a topic that was made anew between two steps gets the acknowledgements of the old one',
          'coordinator/dataplane/share/acknowledging.py',
          'if share.find(key) is not partition:',
          'if share.find(key) is None:',
          SHARE_FETCH, False),
    Fault('one long request has all turns until it is done',
          'coordinator/runtime/steps.py',
          'self._active.rotate(-1)\n        return self._active[-1]',
          'return self._active[-1]',
          STEPS, False),
    Fault('the entries of one request together exceed the bound of memory',
          'coordinator/core/prices.py',
          'self._held.bytes[kind] + self._taken.get(kind, 0) + more > bound',
          'self._held.bytes[kind] + more > bound',
          PRICES, True),
    Fault('what exists cannot be changed, nor made smaller, once the bound is reached',
          'coordinator/core/prices.py',
          'more = weigh_record(record) - self._sizes.get(hash(record.key), 0)',
          'more = weigh_record(record)',
          PRICES, True),
    Fault('many blocks of snappy unpack to more than the bound',
          'protocol/compression.py',
          '        left -= len(chunk)\n',
          '',
          PACKED, True),
    Fault('what compaction packs by snappy cannot be read when it is larger than a piece',
          'protocol/compression.py',
          'parts, self._head = [self._head], b""',
          'parts = [self._head]',
          PACKED, True),
    Fault('whether any name is allowed: a deny of a prefix does not take the allow of a name back',
          'coordinator/core/acls/authorizer.py',
          '(o.exact.get(name, 0) | o.prefixed.find(name)) & denied',
          'o.exact.get(name, 0) & denied',
          ACLS, True),
    Fault('the first rebalance that is shown has no cause, though the log has it',
          'coordinator/cli/group_changes.py',
          'max(first[one], self._shown[one] - BEFORE)',
          'self._shown[one]',
          ANY_CLUSTER, True),
    Fault('a stream with a limit creeps through the offsets that retention has removed',
          'pipeline/decode/cluster.py',
          'min(end, max(start.next_offset, log.begin) + max(',
          'min(end, start.next_offset + max(',
          CLUSTER, False),
    Fault('commits of earlier generations are taken for those of the last one: outages are told too short',
          'pipeline/history/live.py',
          '                self.history.observe(topic, partition, activity)\n            self._commits = {}',
          '                self.history.observe(topic, partition, activity)',
          LIVE, False),
)  # fmt: skip

OPEN: Final = ("during the initial delay a heartbeat of a streams group is not told that the assignment is delayed",)
"""What was missed at first, and still is."""
