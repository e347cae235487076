"""Records out: Fetch, ListOffsets, DeleteRecords, OffsetForLeaderEpoch."""

from typing import Any

from tests.conformance.batches import T0, batch
from tests.conformance.requests import UNKNOWN_ID, topic_data
from tests.conformance.stage import Answer, Pending, Stage
from tests.conformance.stories.produce import produce
from tests.conformance.story import story


def ask(
    k: Stage,
    topic: str,
    offset: int = 0,
    *,
    index: int = 0,
    size: int = 1 << 20,
    version: int = 12,
    on: str = "reader",
    part: dict[str, Any] | None = None,
    **values: Any,
) -> Pending:
    """One partition's fetch, not waiting for data unless told."""
    wanted = {"partition": index, "fetch_offset": offset, "partition_max_bytes": size, **(part or {})}
    name = {"topic_id": k.topic_id(topic)} if version >= 13 else {"topic": topic}
    base: dict[str, Any] = {"max_wait_ms": 0, "topics": [{**name, "partitions": [wanted]}]}
    return k.line(on).send("fetch", version, **{**base, **values})


def fetch(k: Stage, topic: str, offset: int = 0, **values: Any) -> Answer:
    return ask(k, topic, offset, **values).answer()


def filled(k: Stage, count: int = 3, partitions: int = 1) -> str:
    """A topic with so many batches of one record in its first partition."""
    topic = k.topic(partitions=partitions)
    for number in range(count):
        data = topic_data(topic, batch(b"record %d" % number, timestamps=[T0 + 1000 * number]))
        k.line("stage").quietly("produce", 9, acks=-1, timeout_ms=1000, topic_data=data)
    return topic


def offsets(k: Stage, topic: str, *times: int, version: int = 10, index: int = 0, **values: Any) -> Answer:
    """ListOffsets for these times of one partition."""
    parts = [{"partition_index": index, "timestamp": time} for time in times]
    return k.line("reader").call(
        "list_offsets", version, **{"replica_id": -1, "topics": [{"name": topic, "partitions": parts}], **values}
    )


@story("V-007")
def every_fetch_version_reads_the_log(k: Stage) -> None:
    """Versions 4 to 12 by name, 13 to 18 by topic id."""
    topic = filled(k, 1)
    for version in range(4, 19):
        fetch(k, topic, version=version)


@story("V-007")
def a_fetch_at_the_end_waits_for_the_next_record(k: Stage) -> None:
    """It is held until something is produced, and answered then."""
    topic = filled(k, 1)
    waiting = ask(k, topic, 1, max_wait_ms=10_000, min_bytes=1)
    waiting.silent(500)
    produce(k.line("p"), topic, batch(b"news"))
    waiting.answer()


@story("V-007")
def a_fetch_gives_up_waiting(k: Stage) -> None:
    """After its maximum wait it is answered with nothing."""
    topic = filled(k, 1)
    fetch(k, topic, 1, max_wait_ms=800, min_bytes=1)
    fetch(k, topic, 0, max_wait_ms=800, min_bytes=100_000)


@story("V-007")
def an_offset_that_is_not_there_is_answered_at_once(k: Stage) -> None:
    """Beyond the end and below the start: OFFSET_OUT_OF_RANGE, without a wait."""
    topic = filled(k)
    for offset in (4, -1):
        fetch(k, topic, offset, max_wait_ms=5000, min_bytes=1)
    fetch(k, topic, 3)


@story("V-007")
def partitions_that_are_not_there(k: Stage) -> None:
    """Unknown topic, partition and id, each answered at once."""
    topic = filled(k)
    fetch(k, k.name("none"), max_wait_ms=5000, min_bytes=1)
    fetch(k, topic, index=9, max_wait_ms=5000, min_bytes=1)
    unknown = {"topic_id": UNKNOWN_ID, "partitions": [{"partition": 0, "partition_max_bytes": 100}]}
    k.line("reader").call("fetch", 15, max_wait_ms=5000, min_bytes=1, topics=[unknown])


@story("V-007")
def at_least_one_batch_is_always_given(k: Stage) -> None:
    """However small the limits are, the first batch comes whole; the others only if they fit."""
    topic = filled(k)
    fetch(k, topic, size=1)
    fetch(k, topic, max_bytes=1)
    fetch(k, topic, size=150)


@story("V-007")
def a_fetch_in_the_middle_of_a_batch_gives_the_whole_batch(k: Stage) -> None:
    """The client drops what it did not ask for."""
    topic = k.topic()
    produce(k.line("p"), topic, batch(b"a", b"b", b"c"))
    fetch(k, topic, 2)


@story("V-007")
def a_fetch_from_several_partitions(k: Stage) -> None:
    """Those without data are there too; one that is wrong does not hurt the others."""
    topic = filled(k, 2, partitions=3)
    parts = [{"partition": index, "fetch_offset": 0, "partition_max_bytes": 1000} for index in (0, 1, 5)]
    k.line("reader").call("fetch", 12, max_wait_ms=0, topics=[{"topic": topic, "partitions": parts}])


@story("V-007")
def a_leader_epoch_that_is_not_the_leaders(k: Stage) -> None:
    """Older ones are fenced, newer ones unknown; -1 asks nothing."""
    topic = filled(k, 1)
    for epoch in (-1, 0, 5):
        fetch(k, topic, part={"current_leader_epoch": epoch})
    for epoch in (0, 3):
        fetch(k, topic, 1, part={"last_fetched_epoch": epoch})


@story("V-007")
def an_offset_beyond_the_end_of_the_epoch_that_was_fetched(k: Stage) -> None:
    """The answer names the end of that epoch, at once, also in a session; no offset is out of range."""
    topic, empty = filled(k), k.topic("empty")
    for name, offset in ((topic, 3), (topic, 4), (empty, 0), (empty, 1)):
        for level in (0, 1):
            fetch(k, name, offset, part={"last_fetched_epoch": 0}, isolation_level=level)
    fetch(k, topic, 7, part={"last_fetched_epoch": 0}, max_wait_ms=5000, min_bytes=1)
    fetch(k, topic, 7, version=16, part={"last_fetched_epoch": 0, "current_leader_epoch": 0})
    reader = k.line("reader")
    parts = [{"partition": 0, "fetch_offset": 9, "last_fetched_epoch": 0, "partition_max_bytes": 1000}]
    asked: dict[str, Any] = {"session_id": 0, "session_epoch": 0, "topics": [{"topic": topic, "partitions": parts}]}
    for _ in range(3):
        heard = reader.quietly("fetch", 12, max_wait_ms=0, **asked)
        found = [part.diverging_epoch.end_offset for one in heard.responses for part in one.partitions]
        k.events.append({"ends": found, "error": heard.error_code})
        epoch = asked["session_epoch"] + 1
        asked = {"session_id": heard.session_id, "session_epoch": epoch, "topics": []}


@story("V-007 O-101")
def the_log_of_groups_is_internal(k: Stage) -> None:
    """Metadata shows the topic of offsets as internal; nobody may delete it, or write to it."""
    name = "__consumer_offsets"
    topic = k.line("reader").quietly("metadata", 12, topics=[{"name": name}], allow_auto_topic_creation=False).topics[0]
    k.events.append({"error": topic.error_code, "internal": topic.is_internal, "partitions": len(topic.partitions)})
    produce(k.line("p"), name, batch(b"x", key=b"k"))
    k.line("admin").call(
        "create_topics", 7, topics=[{"name": name, "num_partitions": 1, "replication_factor": 1}], timeout_ms=1000
    )


@story("V-007")
def records_are_deleted_by_cleanup_policy(k: Stage) -> None:
    """All policies but `compact` alone allow it, also none."""
    for number, policy in enumerate(("delete", "compact", "compact,delete", "")):
        topic = k.topic(f"t{number}", configs={"cleanup.policy": policy})
        produce(k.line("p"), topic, batch(b"a", b"b", key=b"k"))
        upto = [{"name": topic, "partitions": [{"partition_index": 0, "offset": 1}]}]
        k.line("admin").call("delete_records", 2, topics=upto, timeout_ms=1000)


@story("V-007")
def a_fetch_session_tells_only_what_changed(k: Stage) -> None:
    """Epoch 0 opens a session with all; the next fetch names nothing and hears only news; then it is closed."""
    topic = filled(k, 1)
    reader = k.line("reader")
    first = ask(k, topic, 0, session_id=0, session_epoch=0)
    opened = reader.arrive(first.flight, 5000)
    k.events.append({"opened": opened["session_id"] > 0, "partitions": len(opened["responses"])})
    if not opened["session_id"]:
        return
    me = {"session_id": opened["session_id"]}
    move = [{"topic": topic, "partitions": [{"partition": 0, "fetch_offset": 1, "partition_max_bytes": 1000}]}]
    for epoch, topics in ((1, move), (2, [])):
        heard = reader.quietly("fetch", 12, max_wait_ms=0, session_epoch=epoch, topics=topics, **me)
        k.events.append({"epoch": epoch, "error": heard.error_code, "partitions": len(heard.responses)})
    produce(k.line("p"), topic, batch(b"news"))
    heard = reader.quietly("fetch", 12, max_wait_ms=0, session_epoch=3, topics=[], **me)
    k.events.append({"epoch": 3, "error": heard.error_code, "partitions": len(heard.responses)})
    wrong = reader.quietly("fetch", 12, max_wait_ms=0, session_epoch=9, topics=[], **me)
    k.events.append({"wrong epoch": wrong.error_code})
    gone = reader.quietly("fetch", 12, max_wait_ms=0, session_epoch=-1, topics=move, **me)
    k.events.append({"closed": gone.error_code, "session": gone.session_id})
    after = reader.quietly("fetch", 12, max_wait_ms=0, session_epoch=4, topics=[], **me)
    k.events.append({"after": after.error_code})


@story("V-007")
def a_fetch_session_when_its_topic_is_made_anew(k: Stage) -> None:
    """By name it reads the new topic, by id it does not."""
    for version in (12, 13):
        topic = filled(k, 1)
        opened = k.line("reader").arrive(ask(k, topic, 0, version=version, session_epoch=0).flight, 5000)
        me = {"session_id": opened["session_id"], "max_wait_ms": 0, "topics": []}

        def listen(epoch: int, version: int = version, me: dict[str, Any] = me) -> None:
            heard = k.line("reader").quietly("fetch", version, session_epoch=epoch, **me)
            parts = [part for one in heard.responses for part in one.partitions]
            found = [[one.partition_index, one.error_code, one.high_watermark] for one in parts]
            k.events.append({"version": version, "epoch": epoch, "error": heard.error_code, "partitions": found})

        listen(1)
        k.delete_topic(topic)
        listen(2)
        listen(3)
        filled(k, 0)
        listen(4)
        listen(5)
        produce(k.line("p"), topic, batch(b"news"))
        listen(6)
        ask(k, topic, 0, version=version).answer()
        k.delete_topic(topic)


@story("V-007")
def an_isolation_level_that_does_not_exist(k: Stage) -> None:
    """Of a fetch, and of a look for offsets."""
    topic = filled(k, 1)
    for level in (2, -1):
        ask(k, topic, 0, isolation_level=level).closed(within_ms=2000)
        k.line("l").send(
            "list_offsets",
            10,
            replica_id=-1,
            isolation_level=level,
            topics=[{"name": topic, "partitions": [{"partition_index": 0, "timestamp": -1}]}],
        ).closed(within_ms=2000)


@story("V-007")
def partitions_that_are_named_twice(k: Stage) -> None:
    """Within a topic, and by a topic that is named twice."""
    topic = filled(k, 2, partitions=2)
    for number, topics in enumerate(
        (
            [{"name": topic, "partitions": [0, 0, 1]}],
            [{"name": topic, "partitions": [0, 1]}, {"name": topic, "partitions": [0]}],
            [{"name": topic, "partitions": [0]}, {"name": k.name("no"), "partitions": [0, 0]}],
        )
    ):
        line = k.line(f"r{number}")
        times = [
            {
                "name": one["name"],
                "partitions": [{"partition_index": at, "timestamp": -1 - n} for n, at in enumerate(one["partitions"])],
            }
            for one in topics
        ]
        line.send("list_offsets", 10, replica_id=-1, topics=times).closed(within_ms=2000)
        upto = [
            {
                "name": one["name"],
                "partitions": [{"partition_index": at, "offset": n} for n, at in enumerate(one["partitions"])],
            }
            for one in topics
        ]
        line.send("delete_records", 2, topics=upto, timeout_ms=1000).closed(within_ms=2000)
        ends = [
            {
                "topic": one["name"],
                "partitions": [
                    {"partition": at, "leader_epoch": 0, "current_leader_epoch": -1} for at in one["partitions"]
                ],
            }
            for one in topics
        ]
        line.send("offset_for_leader_epoch", 4, replica_id=-1, topics=ends).closed(within_ms=2000)


@story("V-007", server="sessions")
def as_many_fetch_sessions_as_there_may_be(k: Stage) -> None:
    """A further consumer gets no session while all others were used just now, and one when a session was closed."""
    topic = filled(k, 1)
    reader = k.line("reader")

    def tell(what: str, **values: Any) -> Any:
        topics = [] if values.get("session_epoch", 0) > 0 else _partition_zero(topic)
        heard = reader.quietly("fetch", 12, **{"max_wait_ms": 0, "session_epoch": 0, "topics": topics, **values})
        k.events.append({what: heard.error_code, "has_session": heard.session_id > 0, "topics": len(heard.responses)})
        return heard.session_id

    ids = [tell("opened") for _ in range(8)]
    tell("one too many")
    for session_id in ids:
        tell("continued", session_id=session_id, session_epoch=1)
    tell("closed", session_id=ids[1], session_epoch=-1)
    tell("opened")


def _partition_zero(topic: str) -> list[dict[str, Any]]:
    return [{"topic": topic, "partitions": [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}]}]


@story("V-007")
def a_fetch_session_that_nobody_opened(k: Stage) -> None:
    """Its id is unknown."""
    k.line("reader").call("fetch", 12, max_wait_ms=0, session_id=123456, session_epoch=1, topics=[])


@story("V-007")
def every_list_offsets_version_answers(k: Stage) -> None:
    """Versions 1 to 11 know the latest and the earliest; an empty topic has offset 0 for both and no time."""
    topic, empty = filled(k), k.topic("empty")
    for version in range(1, 12):
        offsets(k, topic, -1, version=version)
    for time in (-2, -1, -3, T0):
        offsets(k, empty, time)


@story("V-007")
def records_are_deleted_up_to_an_offset(k: Stage) -> None:
    """The start of the log moves; -1 means the end; beyond the end is out of range."""
    topic = filled(k)
    admin = k.line("admin")

    def delete(offset: int, index: int = 0, name: str = topic) -> None:
        topics = [{"name": name, "partitions": [{"partition_index": index, "offset": offset}]}]
        admin.call("delete_records", 2, topics=topics, timeout_ms=5000)

    delete(2)
    offsets(k, topic, -2)
    fetch(k, topic, 0)
    fetch(k, topic, 2)
    delete(1)
    delete(9)
    delete(-1)
    delete(-2)
    delete(0, index=7)
    delete(0, name=k.name("none"))
    offsets(k, topic, -2)


@story("V-007")
def the_greatest_time_may_be_that_of_a_deleted_record(k: Stage) -> None:
    """A record at or after a time is one that is not deleted."""
    topic, admin = k.topic(), k.line("admin")
    produce(k.line("writer"), topic, batch(b"a", b"b", timestamps=[T0 + 2_000, T0 + 1_000]))
    offsets(k, topic, -3)
    admin.call(
        "delete_records",
        2,
        topics=[{"name": topic, "partitions": [{"partition_index": 0, "offset": 1}]}],
        timeout_ms=5000,
    )
    for time in (-3, T0, T0 + 2_000):
        offsets(k, topic, time)


@story("V-007")
def where_a_leader_epoch_ends(k: Stage) -> None:
    """The present epoch ends at the log's end, a later one is not known."""
    topic = filled(k)
    parts = [{"partition": 0, "leader_epoch": 0}]
    for wanted in (
        parts,
        [{"partition": 0, "leader_epoch": 5}],
        [{"partition": 9, "leader_epoch": 0}],
        [{"partition": 0, "leader_epoch": 0, "current_leader_epoch": 7}],
    ):
        k.line("reader").call(
            "offset_for_leader_epoch", 4, replica_id=-1, topics=[{"topic": topic, "partitions": wanted}]
        )


@story("V-007")
def a_leader_epoch_before_all_others(k: Stage) -> None:
    """One below -1 that is asked about ends where the log begins; as the present one it is fenced, but not by Fetch,
    for which anything below 0 is no epoch."""
    topic = filled(k)
    for _ in range(2):
        for part in (
            {"partition": 0, "leader_epoch": -2},
            {"partition": 0, "leader_epoch": -(2**31)},
            {"partition": 0, "leader_epoch": -1},
            {"partition": 0, "leader_epoch": 0, "current_leader_epoch": -2},
            {"partition": 9, "leader_epoch": -2, "current_leader_epoch": -2},
        ):
            wanted = [{"topic": topic, "partitions": [part]}]
            k.line("reader").call("offset_for_leader_epoch", 4, replica_id=-1, topics=wanted)
        for time in (-1, -2):
            parts = [{"partition_index": 0, "current_leader_epoch": -2, "timestamp": time}]
            topics = [{"name": topic, "partitions": parts}]
            k.line("reader").call("list_offsets", 6, replica_id=-1, isolation_level=0, topics=topics)
        fetch(k, topic, 2, part={"last_fetched_epoch": -2})
        fetch(k, topic, 2, part={"current_leader_epoch": -2})
        parts = [{"partition_index": 0, "offset": 2}]
        k.line("admin").quietly("delete_records", 2, topics=[{"name": topic, "partitions": parts}], timeout_ms=5000)


@story("V-007")
def a_parked_fetch_holds_its_connection(k: Stage) -> None:
    """What is asked behind it waits; another connection does not."""
    topic = filled(k, 1)
    first = ask(k, topic, 1, max_wait_ms=1200, min_bytes=1)
    behind = k.line("reader").send("find_coordinator", 1, key="g")
    k.line("other").call("find_coordinator", 1, key="g")
    behind.silent(300)
    first.answer()
    behind.answer()


@story("V-007")
def a_parked_fetch_hears_of_a_deleted_topic(k: Stage) -> None:
    """Its topic goes away while it waits."""
    topic = filled(k, 1)
    waiting = ask(k, topic, 1, max_wait_ms=1500, min_bytes=1)
    k.pause(200)
    k.line("admin").quietly("delete_topics", 6, topics=[{"name": topic}], timeout_ms=10_000)
    answer = k.line("reader").arrive(waiting.flight, 10_000)
    k.events.append({"error": answer["responses"][0]["partitions"][0]["error_code"]})
