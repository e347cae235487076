"""How members get into a classic group: JoinGroup."""

from typing import Any

from tests.conformance.actors import Member, members, static_pair, subscription
from tests.conformance.scenes import complete_join, join_alone, joining_pair, pending_pair, stable, sync_all
from tests.conformance.stage import Stage
from tests.conformance.story import story


def offers(*names: str, topic: str = "x") -> list[dict[str, Any]]:
    """Protocols in the order of the member's liking, each with the subscription to one topic."""
    return [{"name": name, "metadata": subscription(f"{topic} by {name}")} for name in names]


@story("C-120 C-122 C-140 C-141 C-172 T-001")
def the_first_member_is_named_then_leads_generation_one(k: Stage) -> None:
    """A lone consumer is given its id first, joins with it, leads generation 1, syncs and beats."""
    a = Member(k, "a")
    a.introduce()
    a.join_and_sync(b"all of it")
    a.beat()


@story("C-011 C-122 C-102")
def member_id_required_names_the_client_in_the_id(k: Stage) -> None:
    """The id that comes with MEMBER_ID_REQUIRED starts with the client id; without a client id, with a dash."""
    Member(k, "some-client").ask_join().answer()
    k.line("anonymous", client_id=None).call(
        "join_group",
        9,
        group_id=k.name("g"),
        session_timeout_ms=1000,
        protocol_type="consumer",
        protocols=offers("range"),
    )


@story("C-011 C-013")
def a_null_client_id_is_shown_as_empty(k: Stage) -> None:
    """A member whose client has no id gets an id that starts with a dash and is described with an empty client id."""
    line = k.line("anonymous", client_id=None)
    values: dict[str, Any] = {
        "group_id": k.name("g"),
        "session_timeout_ms": 10_000,
        "protocol_type": "consumer",
        "protocols": offers("range"),
    }
    line.call("join_group", 3, **values)
    line.call("describe_groups", 5, groups=[k.name("g")])


@story("C-123 C-142 G-011")
def old_join_versions_admit_a_member_at_once(k: Stage) -> None:
    """Before version 4 nobody is named first: versions 0 to 3 each admit the new member in one step."""
    for version in range(4):
        Member(k, f"v{version}", k.name(f"g{version}"), version=version).join()


@story("G-011 C-102 C-140")
def every_join_version_shows_the_same_member(k: Stage) -> None:
    """Versions 4 to 9 go through MEMBER_ID_REQUIRED and then answer with what their layout has room for."""
    for version in range(4, 10):
        Member(k, f"v{version}", k.name(f"g{version}"), version=version).join()


@story("G-045 C-102")
def an_empty_group_id_cannot_be_joined(k: Stage) -> None:
    """JoinGroup, SyncGroup, Heartbeat and LeaveGroup refuse the empty group id; JoinGroup echoes the member id."""
    a = Member(k, "a", "")
    a.ask_join().answer()
    a.ask_join(member_id="somebody").answer()
    a.ask_join(version=6, member_id="somebody").answer()
    a.ask_sync(member_id="somebody", generation_id=1).answer()
    a.beat(member_id="somebody", generation_id=1)
    a.leave()


@story("C-100 C-101 K-001 K-002")
def session_timeouts_outside_the_bounds_are_refused(k: Stage) -> None:
    """The lowest and the highest session timeout are accepted, one millisecond beyond is not."""
    for session in (99, 100, 600_000, 600_001, 0, -1):
        Member(k, "a", k.name(f"g{session}"), version=3, session_timeout_ms=session).ask_join().answer()


@story("C-100 G-045")
def an_empty_group_id_outranks_a_bad_session_timeout(k: Stage) -> None:
    """Both are wrong: the group id is named. A bad session timeout in turn outranks an unknown member."""
    Member(k, "a", "", session_timeout_ms=1).ask_join().answer()
    Member(k, "a", session_timeout_ms=1).ask_join(member_id="nobody").answer()


@story("C-139 Q-002")
def a_member_id_that_nobody_gave_is_unknown(k: Stage) -> None:
    """Joining a group that is not there, or that does not know the id, with an id of one's own."""
    Member(k, "a", k.name("none")).ask_join(member_id="made-up").answer()
    stable(Member(k, "b"))
    Member(k, "a").ask_join(member_id="made-up").answer()


@story("C-110 Q-001 C-030")
def an_unsupported_protocol_outranks_an_unknown_member(k: Stage) -> None:
    """Whoever offers nothing that all members have gets INCONSISTENT_GROUP_PROTOCOL before its id is looked at."""
    stable(Member(k, "a", protocols=offers("range")))
    Member(k, "b", protocols=offers("sticky")).ask_join(member_id="made-up").answer()
    Member(k, "b", protocols=offers("sticky")).ask_join().answer()
    Member(k, "b", protocols=offers("sticky"), version=6).ask_join().answer()


@story("C-030 T-004")
def another_protocol_type_does_not_fit_in(k: Stage) -> None:
    """A Connect worker cannot join a group of consumers, even with a protocol of the same name."""
    stable(Member(k, "a", protocols=offers("range")))
    Member(k, "b", protocol_type="connect", protocols=offers("range")).ask_join().answer()


@story("C-030 C-115")
def a_join_without_protocols_or_type_is_refused(k: Stage) -> None:
    """No protocol, or no protocol type: refused, though the group is empty; it is listed nevertheless."""
    Member(k, "a", protocols=[]).ask_join().answer()
    Member(k, "a", protocol_type="").ask_join().answer()
    k.line("a").call("list_groups", 5, mine="groups.group_id")


@story("C-031")
def a_lone_member_cannot_change_to_other_protocols(k: Stage) -> None:
    """Its own old offer counts too: a lone member that comes back with disjoint protocols is refused."""
    a = join_alone(k, "a", protocols=offers("range"))
    a.ask_join(protocols=offers("sticky")).answer()
    a.ask_join(protocols=offers("sticky", "range")).answer()


@story("C-032 T-003")
def the_protocol_with_most_votes_wins(k: Stage) -> None:
    """Each member votes for the first of its protocols that all have: round-robin gets two of three votes."""
    a = Member(k, "a", protocols=offers("range", "roundrobin"))
    b = Member(k, "b", protocols=offers("roundrobin", "range"))
    c = Member(k, "c", protocols=offers("roundrobin", "sticky", "range"))
    stable(a)
    b.introduce()
    c.introduce()
    waiting = [b.ask_join(), c.ask_join()]
    k.pause(150)
    a.rejoin()
    for one, pending in zip((b, c), waiting, strict=True):
        one.joined(pending)


@story("C-032")
def protocols_with_as_many_votes(k: Stage) -> None:
    """Which of two wins has nothing to do with who votes for it, nor with what the group had before."""
    for number, (first, second) in enumerate((("range", "roundrobin"), ("sticky", "cooperative-sticky"), ("b", "a"))):
        for mine, other in ((first, second), (second, first)):
            group = k.name(f"g-{number}-{mine}")
            a = Member(k, f"a-{number}-{mine}", group=group, protocols=offers(mine, other))
            b = Member(k, f"b-{number}-{mine}", group=group, protocols=offers(other, mine))
            complete_join(a, b)


@story("C-032 C-141")
def only_what_all_support_can_be_chosen(k: Stage) -> None:
    """The favourite of one member is not chosen when another lacks it; the leader sees the metadata of what was chosen."""
    a = Member(k, "a", protocols=offers("sticky", "range"))
    b = Member(k, "b", protocols=offers("range"))
    complete_join(a, b)


@story("C-137 C-150 C-151 T-002 C-251")
def a_second_member_makes_the_first_rejoin(k: Stage) -> None:
    """B joins and is parked; A hears of it by its heartbeat, comes back, and both are in generation 2."""
    a, b = pending_pair(k)
    waiting = b.ask_join()
    a.beat_until("REBALANCE_IN_PROGRESS")
    waiting.silent(200)
    a.rejoin((b, waiting))
    sync_all((a, b), (b"first half", b"second half"))
    a.beat()
    b.beat()


@story("C-138 Q-016")
def a_follower_that_rejoins_unchanged_disturbs_nobody(k: Stage) -> None:
    """A follower sends the same JoinGroup again: it is answered at once, in the same generation, without a member list."""
    a, b = stable(*members(k, "ab"))
    b.ask_join().answer()
    a.beat()


@story("C-136 Q-017")
def a_leader_that_rejoins_unchanged_starts_a_rebalance(k: Stage) -> None:
    """The leader's JoinGroup always means: assign anew."""
    a, b = stable(*members(k, "ab"))
    waiting = a.ask_join()
    b.beat_until("REBALANCE_IN_PROGRESS")
    b.rejoin((a, waiting))


@story("C-137 C-033")
def a_follower_with_new_metadata_starts_a_rebalance(k: Stage) -> None:
    """The same protocol name with other bytes, sent by a member with its id, is a change."""
    a, b = stable(*members(k, "ab"))
    waiting = b.ask_join(protocols=offers("range", topic="other"))
    a.beat_until("REBALANCE_IN_PROGRESS")
    a.rejoin((b, waiting))


@story("C-033")
def the_order_of_protocols_is_part_of_the_metadata(k: Stage) -> None:
    """A follower that prefers its protocols in another order has changed: rebalance."""
    a = Member(k, "a", protocols=offers("range", "sticky"))
    b = Member(k, "b", protocols=offers("range", "sticky"))
    stable(a, b)
    b.ask_join(protocols=offers("sticky", "range")).silent(200)
    a.beat()


@story("C-134 C-141")
def a_member_that_asks_again_while_syncing_gets_the_same_generation(k: Stage) -> None:
    """Between JoinGroup and SyncGroup an unchanged JoinGroup is answered at once; only the leader gets the list."""
    a, b = complete_join(*members(k, "ab"))
    a.ask_join().answer()
    b.ask_join().answer()


@story("C-135 C-151")
def changed_metadata_while_syncing_starts_over(k: Stage) -> None:
    """B waits in SyncGroup; A comes back with other metadata: B hears of the rebalance and both reach a new generation."""
    a, b = complete_join(*members(k, "ab"))
    sync = b.ask_sync()
    sync.silent(150)
    again = a.ask_join(protocols=offers("range", topic="other"))
    sync.answer()
    b.rejoin((a, again))


@story("C-133 Q-013")
def a_second_join_takes_the_place_of_the_first(k: Stage) -> None:
    """A member asks twice, on two connections, while the group waits: only the second request is ever answered."""
    a, b, first = joining_pair(k)
    b.line = k.line("b again")
    second = b.ask_join()
    k.pause(150)
    a.rejoin((b, second))
    first.silent(300)


@story("C-125 C-154 T-020")
def each_retry_without_an_id_makes_another_pending_id(k: Stage) -> None:
    """Two named but absent members hold the completion back until their session timeouts end."""
    a, b = Member(k, "a"), Member(k, "b", session_timeout_ms=800)
    a.introduce()
    a.join_and_sync(b"all")
    b.introduce()
    b.ask_join(member_id="").answer()
    a.rejoin()


@story("C-130 C-152")
def a_pending_member_that_comes_completes_the_join(k: Stage) -> None:
    """A waits for the member that was only named; as soon as it joins both are answered."""
    a, b = pending_pair(k)
    waiting = a.ask_join()
    waiting.silent(300)
    b.rejoin((a, waiting))


@story("C-131")
def a_pending_id_with_an_instance_id_is_an_error(k: Stage) -> None:
    """The id was given to a dynamic member; a static one that presents it confuses the coordinator."""
    a = Member(k, "a")
    a.introduce()
    a.ask_join(group_instance_id="i").answer()


@story("C-031 C-153 G-003")
def what_is_behind_a_parked_join_waits(k: Stage) -> None:
    """Requests on one connection are answered in order: a heartbeat behind a parked JoinGroup waits for it."""
    a, b = pending_pair(k)
    join = b.ask_join()
    behind = b.ask("heartbeat", 4, generation_id=2)
    another = b.line.send("find_coordinator", 2, key=k.name("g"))
    behind.silent(300)
    a.rejoin((b, join))
    behind.answer()
    another.answer()


@story("G-004 C-355")
def a_client_that_hangs_up_while_it_joins_stays_a_member(k: Stage) -> None:
    """B's connection breaks while its JoinGroup is parked; it is in the next generation all the same."""
    a, b = pending_pair(k)
    b.ask_join()
    k.pause(200)
    b.line.close()
    a.rejoin()


@story("C-171 C-006 C-306 T-007")
def generations_go_on_after_the_group_was_empty(k: Stage) -> None:
    """The last member leaves generation 1, which makes 2, so that who comes next is in 3; the protocol type may change."""
    a = join_alone(k, "a")
    a.leave()
    k.line("a").call("describe_groups", 5, groups=[k.name("g")])
    Member(k, "b", protocol_type="connect").join()


@story("C-016 Q-037 C-123")
def version_0_waits_as_long_as_the_session_lasts(k: Stage) -> None:
    """JoinGroup v0 has no rebalance timeout: the absent member is given up after the session timeout."""
    a = Member(k, "a", version=0, session_timeout_ms=1000)
    b = Member(k, "b", version=0, session_timeout_ms=1000)
    a.join_and_sync(b"all")
    b.join()


@story("C-111 C-112 T-011", server="full")
def a_full_group_takes_nobody_and_names_nobody(k: Stage) -> None:
    """With two of two members there a third is refused at once, before any other check, without an id."""
    a, _b = stable(*members(k, "ab"))
    Member(k, "c").ask_join().answer()
    Member(k, "c", protocols=offers("other")).ask_join(member_id="made-up").answer()
    a.beat()


@story("C-112 C-113 C-114 T-011", server="full")
def the_last_of_three_named_members_to_come_is_expelled(k: Stage) -> None:
    """Three were named while there was room. The first comes back when two others wait: it is expelled, and they go on at the timeout."""
    a, b, c = people = [Member(k, name, rebalance_timeout_ms=1500) for name in "abc"]
    for one in people:
        one.introduce()
    a.rejoin()
    b.ask_join()
    k.pause(150)
    c.ask_join()
    k.pause(150)
    a.ask_join().answer()
    a.beat()
    watch = k.line("watch")
    watch.call("describe_groups", 5, groups=[k.name("g")])
    watch.await_group(k.name("g"), "CompletingRebalance")


@story("C-114 C-113 Q-023 C-412", server="full")
def a_full_group_turns_its_own_static_member_away(k: Stage) -> None:
    """A static member that restarts into a full group is refused though it would only replace itself."""
    _a, b = stable(*static_pair(k))
    b.ask_join(member_id="").answer()
    b.beat()


@story("C-124 C-430")
def an_empty_instance_id_is_an_instance_id(k: Stage) -> None:
    """Clients never send it, but it counts: no naming first, and the member id starts with a dash."""
    a = Member(k, "a", instance="")
    a.rejoin()
    k.line("a").call("describe_groups", 5, groups=[k.name("g")])


@story("C-313 G-011")
def a_reason_to_join_changes_nothing(k: Stage) -> None:
    """JoinGroup v8 and v9 carry a reason; it is for the log alone, however long."""
    a = Member(k, "a")
    a.introduce()
    a.join_and_sync(b"all", reason="because " * 100)
    a.ask("join_group", 8, **a.joining, reason="").answer()


@story("O-420 C-215")
def metadata_and_assignments_are_opaque(k: Stage) -> None:
    """Bytes that are no subscription and no assignment are carried as they are; the group becomes stable."""
    a = Member(
        k,
        "a",
        k.name("g"),
        protocol_type="connect",
        protocols=[{"name": "own", "metadata": b"\x00\xff not a subscription"}],
    )
    a.join_and_sync(bytes(range(40)))
    k.line("a").call("describe_groups", 5, groups=[k.name("g")])


@story("O-420")
def a_subscription_that_ends_too_early_harms_nobody(k: Stage) -> None:
    """A consumer whose metadata is empty, or ends before its count of topics, joins like any other."""
    for name, metadata in (("empty", b""), ("short", b"\x00"), ("no-count", subscription("topic")[:4])):
        a = Member(k, name, k.name(name), protocols=[{"name": "range", "metadata": metadata}])
        a.join_and_sync(b"all")


@story("O-420 K-217")
def a_subscription_that_counts_more_topics_than_it_has_bytes(k: Stage) -> None:
    """The embedded count of topics is far beyond the bytes that follow, or a topic's name breaks off."""
    a = Member(
        k, "a", k.name("g"), version=3, protocols=[{"name": "range", "metadata": b"\x00\x01\x7f\x00\x00\x00\x00\x01"}]
    )
    a.ask_join().silent(1500)
    cut = Member(
        k, "cut", k.name("cut"), version=3, protocols=[{"name": "range", "metadata": subscription("topic")[:9]}]
    )
    cut.ask_join().silent(1500)
    k.line("b").call("describe_groups", 5, groups=[k.name("g")])


@story("C-030 C-032")
def a_group_that_became_empty_starts_with_other_protocols(k: Stage) -> None:
    """Nothing of the old protocols is left when the last member has gone."""
    a = join_alone(k, "a", protocols=offers("range"))
    a.leave()
    b = Member(k, "b", protocols=[{"name": "sticky", "metadata": subscription("x")}])
    b.join_and_sync(b"all")
