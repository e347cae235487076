"""Offsets inside transactions: AddOffsetsToTxn, TxnOffsetCommit, and what EndTxn makes of them."""

from tests.conformance.actors import FAR, Producer
from tests.conformance.requests import commit, delete, fetch_until, named_twice, part
from tests.conformance.scenes import begin_producer, join_alone
from tests.conformance.stage import Answer, Stage
from tests.conformance.story import story


def read(k: Stage, group: str, topic: str, *indexes: int, stable: bool = False) -> Answer:
    """What the group has committed, stable or as it is."""
    wanted = [{"group_id": group, "topics": [{"name": topic, "partition_indexes": list(indexes or (0,))}]}]
    return k.line("watch").call("offset_fetch", 9, groups=wanted, require_stable=stable)


def await_transaction_end(k: Stage, group: str, topic: str) -> None:
    """Wait until a stable fetch finds no open transaction."""

    def is_stable(found: Answer) -> bool:
        return bool(found.topics[0].partitions[0].error_code == "NONE")

    fetch_until(k.line("watch"), group, is_stable, topic, require_stable=True)


def commit_in_transaction(k: Stage, timeout_ms: int = 60_000) -> tuple[str, str, Producer]:
    """A topic, a group, and a producer whose open transaction has committed offset 7 of the one for the other."""
    topic, group, p = k.topic(), k.name("g"), begin_producer(k, timeout_ms=timeout_ms)
    p.add_offsets(group)
    p.commit_offsets(group, topic, part(7))
    return topic, group, p


@story("O-123 O-131 O-135 O-213 T-014")
def a_committed_transaction_shows_its_offsets(k: Stage) -> None:
    """Until the end the old value is read, and a stable read is told to wait; afterwards the new one is there for both."""
    topic, group = k.topic(), k.name("g")
    p = Producer(k)
    commit(p.line, group, topic, part(1))
    p.begin()
    p.add_offsets(group)
    p.commit_offsets(group, topic, part(7, metadata="from the transaction"))
    read(k, group, topic)
    read(k, group, topic, stable=True)
    p.end(True)
    await_transaction_end(k, group, topic)
    read(k, group, topic)


@story("O-132 T-014")
def an_aborted_transaction_leaves_no_trace(k: Stage) -> None:
    """What was committed before is still there."""
    topic, group = k.topic(), k.name("g")
    p = Producer(k)
    commit(p.line, group, topic, part(1))
    p.begin()
    p.add_offsets(group)
    p.commit_offsets(group, topic, part(7))
    p.end(False)
    await_transaction_end(k, group, topic)


@story("O-213 O-214 Q-033")
def a_stable_read_of_everything_omits_what_is_only_pending(k: Stage) -> None:
    """A partition with a pending offset is unstable even if nothing was ever committed; the list of all leaves it out."""
    topic, group = k.topic(partitions=3), k.name("g")
    p = Producer(k)
    commit(p.line, group, topic, part(1, 0), part(1, 2))
    p.begin()
    p.add_offsets(group)
    p.commit_offsets(group, topic, part(7, 0), part(7, 1))
    read(k, group, topic, 0, 1, 2, stable=True)
    for required in (True, False):
        k.line("watch").call("offset_fetch", 9, groups=[{"group_id": group, "topics": None}], require_stable=required)


@story("O-116 V-003")
def offsets_of_a_group_that_was_not_added_are_refused(k: Stage) -> None:
    """Versions 2 and 3 call the transaction's state invalid, version 4 asks to abort."""
    topic, group = k.topic(), k.name("g")
    p = begin_producer(k)
    for version in (2, 3, 4):
        p.commit_offsets(group, topic, version=version)


@story("V-003 O-116")
def version_5_adds_the_group_by_itself(k: Stage) -> None:
    """With the second form of transactions no AddOffsetsToTxn is needed; ending raises the producer's epoch."""
    topic, group = k.topic(), k.name("g")
    p = begin_producer(k, version=5)
    p.commit_offsets(group, topic, part(7), version=5)
    read(k, group, topic, stable=True)
    p.end(True, version=5)
    await_transaction_end(k, group, topic)
    p.commit_offsets(group, topic, part(8), version=5)
    p.end(False, version=5)
    await_transaction_end(k, group, topic)


@story("O-131 Q-032")
def a_plain_commit_made_meanwhile_wins(k: Stage) -> None:
    """The transaction's offset was written first; when it commits, the later plain commit stays."""
    topic, group, p = commit_in_transaction(k)
    commit(k.line("a"), group, topic, part(3))
    read(k, group, topic, stable=True)
    p.end(True)
    await_transaction_end(k, group, topic)


@story("O-130")
def two_producers_may_hold_the_same_partition(k: Stage) -> None:
    """Each has its own pending offset: it is unstable until both have ended, and the last written one counts."""
    topic, group = k.topic(), k.name("g")
    p, q = Producer(k, "p"), Producer(k, "q")
    for producer, offset in ((p, 7), (q, 8)):
        producer.begin()
        producer.add_offsets(group)
        producer.commit_offsets(group, topic, part(offset))
    q.end(True)
    fetch_until(k.line("watch"), group, lambda found: found.topics[0].partitions[0].committed_offset == 8, topic)
    read(k, group, topic, stable=True)
    p.end(True)
    await_transaction_end(k, group, topic)


@story("O-130")
def a_producer_overwrites_its_own_pending_offset(k: Stage) -> None:
    """Of two commits in one transaction the later counts."""
    topic, group, p = commit_in_transaction(k)
    p.commit_offsets(group, topic, part(5))
    p.end(True)
    await_transaction_end(k, group, topic)


@story("O-134 O-306")
def a_deleted_offset_does_not_come_back(k: Stage) -> None:
    """OffsetDelete removes the pending offset too, and the transaction's commit does not bring it back."""
    topic, group, p = commit_in_transaction(k)
    delete(k.line("a"), group, topic)
    read(k, group, topic, stable=True)
    p.end(True)
    k.pause(300)
    read(k, group, topic, stable=True)


@story("O-138 A-305")
def a_group_with_an_open_transaction_can_be_deleted(k: Stage) -> None:
    """Its pending offsets go with it; committing the transaction is no error."""
    topic, group, p = commit_in_transaction(k)
    k.line("a").call("delete_groups", 2, groups_names=[group])
    p.end(True)
    k.pause(300)
    read(k, group, topic, stable=True)


@story("O-119 O-120 Q-042 K-294")
def an_old_producer_commits_without_membership_in_any_state(k: Stage) -> None:
    """All fields unset are accepted in a stable group; a generation or member that is wrong is not."""
    topic = k.topic()
    a = join_alone(k, "a")
    p = begin_producer(k)
    p.add_offsets(a.group)
    p.commit_offsets(a.group, topic, version=2)
    p.commit_offsets(a.group, topic)
    p.commit_offsets(a.group, topic, member_id=a.member_id, generation_id=1)
    p.commit_offsets(a.group, topic, member_id=a.member_id, generation_id=2)
    p.commit_offsets(a.group, topic, member_id="nobody", generation_id=1)
    p.commit_offsets(a.group, topic, member_id=a.member_id, generation_id=1, group_instance_id="unknown")
    p.commit_offsets(a.group, topic, member_id=a.member_id)


@story("O-118 Q-031")
def a_generation_in_a_missing_group(k: Stage) -> None:
    """ILLEGAL_GENERATION in every version; without a generation the group is made."""
    topic = k.topic()
    p = begin_producer(k)
    p.add_offsets(k.name("g"))
    for version in (3, 4, 5):
        p.commit_offsets(k.name("g"), topic, version=version, member_id="x", generation_id=3)
    p.commit_offsets(k.name("g"), topic)


@story("O-114 O-112 O-113 O-122")
def what_is_wrong_with_single_partitions(k: Stage) -> None:
    """An empty group id, an unknown topic or partition, and metadata that is too long."""
    topic, group = k.topic(), k.name("g")
    p = begin_producer(k)
    p.add_offsets(group)
    p.commit_offsets("", topic)
    p.commit_offsets(group, topic, part(1), part(2, 9))
    p.commit_offsets(group, k.name("missing"))
    p.commit_offsets(group, topic, part(3, metadata="x" * 4097))


@story("O-113 O-046")
def topics_of_a_transaction_that_are_named_twice(k: Stage) -> None:
    """As in a commit without a transaction."""
    p = begin_producer(k)
    p.add_offsets(k.name("g"))
    for topics in named_twice(k.topic(), k.name("missing")):
        for generation, member in ((-1, ""), (1, "nobody")):
            p.commit_offsets(k.name("g"), "", topics=topics, member_id=member, generation_id=generation)
    other = begin_producer(k, "other")  # whose transaction does not have the group
    for topics in named_twice(k.name("t"), k.name("missing")):
        other.commit_offsets(k.name("g"), "", topics=topics)


@story("O-117 O-116")
def a_producer_of_an_old_epoch_is_fenced(k: Stage) -> None:
    """Its successor has begun: its commits, additions and ends are refused, each with the error of its version."""
    topic, group = k.topic(), k.name("g")
    old = begin_producer(k, "old", "same")
    old.add_offsets(group)
    old.commit_offsets(group, topic)
    Producer(k, "new", "same").begin_eventually()
    old.commit_offsets(group, topic)
    for version in (1, 2, 3):
        old.line.call("add_offsets_to_txn", version, **old.me(), group_id=group)
        old.end(True, version=version)


@story("O-100 O-116")
def a_producer_id_that_is_not_the_transactions(k: Stage) -> None:
    """INVALID_PRODUCER_ID_MAPPING wherever the id does not belong to the transactional id."""
    topic, group = k.topic(), k.name("g")
    p = begin_producer(k)
    for producer_id in (p.id + FAR, -1):
        p.add_offsets(group, producer_id=producer_id)
        p.commit_offsets(group, topic, producer_id=producer_id)
        p.end(True, producer_id=producer_id)
    p.add_offsets(group, transactional_id=k.name("unknown"))
    p.add_offsets(group, transactional_id="")


@story("O-100")
def the_empty_group_id_may_be_added(k: Stage) -> None:
    """AddOffsetsToTxn does not look at the group."""
    p = begin_producer(k)
    for version in range(4):
        p.add_offsets("", version=version)


@story("O-121 C-352")
def a_transactional_commit_does_not_keep_a_member_alive(k: Stage) -> None:
    """The member's session ends though its producer commits."""
    topic = k.topic()
    a = join_alone(k, "a", session_timeout_ms=1000)
    p = begin_producer(k)
    p.add_offsets(a.group)
    k.pause(500)
    p.commit_offsets(a.group, topic, member_id=a.member_id, generation_id=1)
    k.pause(700)
    a.beat()


@story("O-137", server="expiry")
def a_group_with_only_pending_offsets_is_not_cleaned_up(k: Stage) -> None:
    """Cleanup passes go by; the transaction commits, and its offset is there."""
    topic, group, p = commit_in_transaction(k)
    k.pause(1000)
    k.line("watch").call("describe_groups", 6, groups=[group])
    p.end(True)
    await_transaction_end(k, group, topic)


@story("O-132 O-117")
def a_transaction_that_takes_too_long_is_aborted(k: Stage) -> None:
    """Its time is half a second: the pending offset disappears, and the producer is fenced."""
    topic, group, p = commit_in_transaction(k, timeout_ms=500)
    await_transaction_end(k, group, topic)
    p.end(True)


@story("O-116 V-003")
def offsets_of_topics_that_are_not_there_begin_no_transaction(k: Stage) -> None:
    """They are refused as such, whoever the producer is; the others have the error of the producer."""
    topic, group = k.topic(), k.name("g")
    p = begin_producer(k, version=5)
    none = {"name": k.name("none"), "partitions": [part()]}
    beyond = {"name": topic, "partitions": [part(index=7)]}
    both = {"name": topic, "partitions": [part(), part(index=7)]}
    for topics in ([none], [beyond], [none, beyond]):
        p.commit_offsets(group, topic, version=5, topics=topics)
    p.end(True, version=5)
    p.commit_offsets(group, topic, version=5, topics=[none], producer_epoch=9)
    p.commit_offsets(group, topic, version=5, topics=[none, both], producer_epoch=9)
    p.commit_offsets(group, topic, version=5, topics=[none, both])
    p.end(True, version=5)
