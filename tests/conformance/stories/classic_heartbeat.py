"""How members of a classic group stay alive: Heartbeat, in each state of the group."""

from tests.conformance.actors import Member, members, static_pair
from tests.conformance.scenes import complete_join, join_alone, joining_pair, pending_pair, stable
from tests.conformance.stage import Stage
from tests.conformance.story import story


@story("C-250 C-251 Q-002")
def nobody_beats_in_a_group_without_members(k: Stage) -> None:
    """A missing group and an empty one answer UNKNOWN_MEMBER_ID, whatever the generation."""
    a = Member(k, "a", k.name("none"))
    a.beat(member_id="somebody", generation_id=3)
    b = join_alone(k, "b")
    b.leave()
    b.beat()
    b.beat(generation_id=-1)


@story("C-251 C-254 C-132")
def a_beat_of_another_generation_is_refused(k: Stage) -> None:
    """Known member, wrong generation: ILLEGAL_GENERATION. Unknown member: UNKNOWN_MEMBER_ID, whatever the generation."""
    a = join_alone(k, "a")
    for generation in (0, 2, -1):
        a.beat(generation_id=generation)
    a.beat(member_id="somebody")
    a.beat(member_id="somebody", generation_id=7)
    a.beat(member_id="")


@story("C-251 Q-003 T-001")
def a_member_may_beat_between_join_and_sync(k: Stage) -> None:
    """In CompletingRebalance a heartbeat is fine."""
    a, b = complete_join(*members(k, "ab"))
    a.beat()
    b.beat()
    a.beat(generation_id=1)


@story("C-251 C-256 Q-003")
def during_the_join_a_beat_of_the_old_generation_is_told_to_rejoin(k: Stage) -> None:
    """In PreparingRebalance the current generation is still the old one: 27 for it, 22 for the next."""
    a, _b, _waiting = joining_pair(k)
    a.beat()
    a.beat(generation_id=2)


@story("C-252")
def a_named_member_that_has_not_joined_cannot_beat(k: Stage) -> None:
    """An id that came with MEMBER_ID_REQUIRED is no member yet."""
    a, b = pending_pair(k)
    b.beat(generation_id=1)
    a.beat()


@story("C-351 C-356 C-360")
def a_silent_member_is_removed_at_the_end_of_its_session(k: Stage) -> None:
    """A lone member with a session of a second stops beating; the group becomes empty then and not before."""
    a = join_alone(k, "a", session_timeout_ms=1500)
    watch = k.line("watch")
    k.pause(500)
    watch.call("describe_groups", 5, groups=[k.name("g")])
    watch.await_group(k.name("g"), "Empty")
    a.beat()


@story("C-351 C-355")
def beats_keep_a_member_alive_beyond_its_session(k: Stage) -> None:
    """Three beats, half a session apart, outlive the session that began with the join."""
    a = join_alone(k, "a", session_timeout_ms=2000)
    for _ in range(3):
        k.pause(1200)
        a.beat()


@story("C-255")
def refused_beats_do_not_keep_a_member_alive(k: Stage) -> None:
    """A member that beats with a wrong generation all the time is removed when its session ends."""
    a = join_alone(k, "a", session_timeout_ms=1000)
    k.pause(500)
    a.beat(generation_id=99)
    k.pause(900)
    a.beat()


@story("C-351 Q-009 O-029")
def a_commit_keeps_a_member_alive(k: Stage) -> None:
    """An accepted OffsetCommit restarts the session as a heartbeat does."""
    topic = k.topic()
    a = join_alone(k, "a", session_timeout_ms=2000)
    for offset in range(3):
        k.pause(1200)
        a.commit(topic, offset)
    a.beat()


@story("C-352 O-005 Q-008")
def a_commit_of_nothing_valid_does_not_keep_a_member_alive(k: Stage) -> None:
    """A commit whose topics are all unknown never reaches the group, so the session ends."""
    a = join_alone(k, "a", session_timeout_ms=1000)
    k.pause(500)
    a.commit(k.name("no such topic"))
    k.pause(700)
    a.beat()


@story("C-352")
def syncing_again_does_not_keep_a_member_alive(k: Stage) -> None:
    """SyncGroup in a stable group reads and no more."""
    a = join_alone(k, "a", session_timeout_ms=1000)
    k.pause(500)
    a.sync()
    k.pause(700)
    a.beat()


@story("C-356 C-021 C-150")
def when_the_leader_falls_silent_the_follower_takes_over(k: Stage) -> None:
    """The leader's session ends: the follower is told to rejoin and leads the next generation."""
    a = Member(k, "a", session_timeout_ms=1000)
    b = Member(k, "b")
    stable(a, b)
    b.beat_until("REBALANCE_IN_PROGRESS")
    b.join_and_sync(b"all")
    a.beat()


@story("C-013 C-132 Q-022")
def a_static_members_id_is_enough_to_beat(k: Stage) -> None:
    """Without its instance id a static member is accepted everywhere; with another's it is not."""
    a, _b = stable(*static_pair(k))
    a.beat(group_instance_id=None)
    a.beat(group_instance_id="two")
    a.beat(group_instance_id="three")
    a.beat(version=2)
