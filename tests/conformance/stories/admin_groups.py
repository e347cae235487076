"""What operators ask: DescribeGroups, ListGroups, DeleteGroups."""

from tests.conformance.actors import Member, Modern, members
from tests.conformance.requests import commit, fetch, part, remove
from tests.conformance.scenes import complete_join, join_alone, stable, sync_all
from tests.conformance.stage import Stage
from tests.conformance.story import story


@story("A-004 A-005 Q-005")
def a_missing_group_is_described_as_dead(k: Stage) -> None:
    """Without an error up to version 5; version 6 says that it is not there."""
    for version in range(7):
        k.line("a").call("describe_groups", version, groups=[k.name("none")])


@story("A-006 A-007 A-008 A-009 C-001")
def a_group_is_described_in_each_state(k: Stage) -> None:
    """Completing, stable, preparing, empty: metadata is shown only when stable, assignments as long as they are known."""
    a, b = members(k, "ab")
    watch = k.line("watch")
    complete_join(a, b)
    watch.call("describe_groups", 6, groups=[a.group])
    sync_all((a, b), (b"one", b"two"))
    watch.call("describe_groups", 6, groups=[a.group])
    a.ask_join()
    k.pause(150)
    watch.call("describe_groups", 6, groups=[a.group])
    remove(k, a.group, {"member_id": a.member_id}, {"member_id": b.member_id})
    watch.call("describe_groups", 6, groups=[a.group])


@story("A-010 C-014 C-115 C-122")
def a_named_member_is_not_described(k: Stage) -> None:
    """Its group is there, empty, without a protocol type."""
    a = Member(k, "a")
    a.introduce()
    a.line.call("describe_groups", 6, groups=[a.group])
    a.line.call("list_groups", 5, mine="groups.group_id")


@story("A-005 A-011 A-012")
def authorized_operations_are_told_when_asked_for(k: Stage) -> None:
    """Without an authorizer everything is allowed; of a missing group version 6 says nothing."""
    a = join_alone(k, "a")
    for version in (3, 4, 5, 6):
        for asked in (True, False):
            a.line.call(
                "describe_groups", version, groups=[a.group, k.name("none")], include_authorized_operations=asked
            )


@story("A-002 G-045")
def several_groups_are_described_at_once(k: Stage) -> None:
    """Also the same one twice, and one that is not there."""
    a, b = Member(k, "a", k.name("g1")), Member(k, "b", k.name("g2"))
    stable(a)
    b.introduce()
    a.line.call("describe_groups", 5, groups=[a.group, b.group, a.group, k.name("none")])
    a.line.call("describe_groups", 5, groups=[])


@story("A-013 K-327")
def a_consumer_group_is_no_classic_group_to_describe(k: Stage) -> None:
    """DescribeGroups does not know groups of the new protocol."""
    topic = k.topic()
    Modern(k, "a").join(topic)
    k.line("watch").call("describe_groups", 5, groups=[k.name("g")])
    k.line("watch").call("describe_groups", 6, groups=[k.name("g")])


@story("A-102 A-106 G-020")
def every_list_version_shows_what_it_can(k: Stage) -> None:
    """Versions 0 to 3 have no state, 4 has, 5 has the type too."""
    topic = k.topic()
    stable(Member(k, "a", k.name("stable")))
    commit(k.line("a"), k.name("simple"), topic)
    Modern(k, "m", k.name("modern")).join(topic)
    for version in range(6):
        k.line("watch").call("list_groups", version, mine="groups.group_id")


@story("A-103 A-109 T-019 K-323")
def states_filter_without_regard_to_case_and_blanks(k: Stage) -> None:
    """Several may be given; a name that is no state matches nothing."""
    a, b = Member(k, "a", k.name("stable")), Member(k, "b", k.name("empty"))
    stable(a)
    b.introduce()
    for states in (
        ["Stable"],
        ["stable"],
        [" STABLE "],
        ["empty", "Stable"],
        ["bogus"],
        ["bogus", "Empty"],
        ["Dead"],
        [""],
        [],
    ):
        a.line.call("list_groups", 4, mine="groups.group_id", states_filter=states)


@story("A-104 A-105 K-322 K-323 K-326")
def types_filter_without_regard_to_case(k: Stage) -> None:
    """Classic, consumer, both, neither; with a state both must match."""
    topic = k.topic()
    stable(Member(k, "a", k.name("classic")))
    commit(k.line("a"), k.name("simple"), topic)
    Modern(k, "m", k.name("modern")).join(topic)
    watch = k.line("watch")
    for types in (["classic"], ["Consumer"], ["CONSUMER", "classic"], ["share"], ["bogus"], []):
        watch.call("list_groups", 5, mine="groups.group_id", types_filter=types)
    watch.call("list_groups", 5, mine="groups.group_id", types_filter=["classic"], states_filter=["Empty"])
    watch.call("list_groups", 5, mine="groups.group_id", types_filter=["consumer"], states_filter=["Empty"])


@story("A-300 A-301 A-304 A-309 T-017")
def only_empty_groups_are_deleted(k: Stage) -> None:
    """Stable, empty, missing and the same twice in one request: each stands alone."""
    a, b = Member(k, "a", k.name("stable")), Member(k, "b", k.name("empty"))
    stable(a)
    stable(b)
    b.leave()
    names = [a.group, b.group, k.name("none"), b.group]
    a.line.call("delete_groups", 2, groups_names=names)
    a.line.call("delete_groups", 0, groups_names=names)
    a.line.call("delete_groups", 1, groups_names=[])
    a.beat()


@story("A-303 A-306 A-307 C-171")
def a_deleted_group_leaves_nothing(k: Stage) -> None:
    """Offsets, members and generation are gone: whoever comes next is in generation 1."""
    topic = k.topic()
    a = join_alone(k, "a")
    a.commit(topic, 5)
    a.leave()
    a.line.call("delete_groups", 2, groups_names=[a.group])
    fetch(a.line, a.group, topic)
    a.line.call("describe_groups", 6, groups=[a.group])
    a.commit(topic, 6)
    a.ask_join().answer()
    a.member_id = ""
    a.join()


@story("A-308")
def a_group_of_named_members_can_be_deleted(k: Stage) -> None:
    """It is empty, so it may go; the ids that it gave are unknown then."""
    a = Member(k, "a")
    a.introduce()
    a.line.call("delete_groups", 2, groups_names=[a.group])
    a.ask_join().answer()


@story("A-301")
def a_group_in_any_rebalance_is_not_deleted(k: Stage) -> None:
    """Preparing and completing groups have members."""
    a, _b = complete_join(*members(k, "ab"))
    a.line.call("delete_groups", 2, groups_names=[a.group])
    a.ask_join(protocols=[{"name": "range", "metadata": b""}])
    k.pause(150)
    k.line("watch").call("delete_groups", 2, groups_names=[a.group])


@story("A-301 G-045 A-307")
def the_empty_group_id_can_be_deleted(k: Stage) -> None:
    """It is a name like others; the simple group that a commit made goes, and is missing then."""
    topic = k.topic()
    line = k.line("a")
    commit(line, k.name("simple"), topic, part(1))
    line.call("delete_groups", 2, groups_names=[k.name("simple")])
    line.call("delete_groups", 2, groups_names=[k.name("simple")])
