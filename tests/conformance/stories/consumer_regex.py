"""Subscriptions by regular expression, resolved by the server."""

from tests.conformance.actors import Modern
from tests.conformance.requests import delete, describe
from tests.conformance.scenes import hand_over
from tests.conformance.stage import Stage
from tests.conformance.story import story


def joins(a: Modern, regex: str, *topics: str) -> None:
    a.join(subscribed_topic_names=list(topics) or None, subscribed_topic_regex=regex)


def assigned_by(k: Stage, pattern: str, *topics: str) -> Modern:
    """The member `a`, which has joined with a pattern and been assigned what it matches."""
    a = Modern(k, "a")
    joins(a, k.name(pattern), *topics)
    a.beat_until_assigned(within_ms=14_000)
    return a


@story("K-081 K-086 K-087 K-096 K-097 T-21")
def a_regex_is_resolved_in_the_background(k: Stage) -> None:
    """The join is answered with nothing; soon after a heartbeat brings the topics that match as a whole."""
    k.topic("foo-1", 2)
    k.topic("foo-2", 1)
    k.topic("not-foo", 1)
    a = assigned_by(k, "foo-.*")
    describe(k, a.group)


@story("K-082 K-081 T-21")
def a_regex_must_be_one(k: Stage) -> None:
    """What does not compile, and what RE2 does not have, is refused, and the member is not in the group."""
    a = Modern(k, "a")
    for regex in ("(", "(?=x)", "(a)\\1", "a{2,1}", "[z-a]", "*"):
        joins(a, regex)
    describe(k, a.group)


@story("K-084 K-112")
def names_and_a_regex_together(k: Stage) -> None:
    """The member reads the union of both: the named topic at once, the matching one when it is resolved."""
    named = k.topic("named")
    k.topic("like-this")
    a = assigned_by(k, "like-.*", named)
    describe(k, a.group)


@story("K-088")
def a_regex_that_another_member_brought_counts_at_once(k: Stage) -> None:
    """It is resolved already, so the second member is assigned in its join."""
    k.topic("foo-1", 2)
    a, b = Modern(k, "a"), Modern(k, "b")
    joins(a, k.name("foo-.*"))
    a.beat_until_assigned(within_ms=14_000)
    joins(b, k.name("foo-.*"))
    hand_over(a, b)


@story("K-089 K-090 K-084")
def a_regex_is_given_up(k: Stage) -> None:
    """The empty text means no regex any more: the group moves at once, and the topics are taken away."""
    named = k.topic("named")
    k.topic("like-this")
    a = assigned_by(k, "like-.*", named)
    a.beat(subscribed_topic_regex="")
    a.owns()
    describe(k, a.group)


@story("K-091 K-088")
def another_regex_within_ten_seconds_waits(k: Stage) -> None:
    """A group resolves at most every ten seconds; the member's former topics are gone, the new ones come then."""
    k.topic("red-1")
    k.topic("blue-1")
    a = assigned_by(k, "red-.*")
    a.beat(subscribed_topic_regex=k.name("blue-.*"))
    a.owns()
    a.beat_until_assigned(within_ms=14_000)


@story("K-093 K-091 T-21")
def a_new_topic_that_matches_is_found(k: Stage) -> None:
    """It is created after the regex was resolved, and assigned after the ten seconds between two resolutions."""
    k.topic("foo-1")
    a = assigned_by(k, "foo-.*")
    k.topic("foo-2")
    a.beat_until_assigned(within_ms=14_000)


@story("K-100 K-081")
def a_regex_that_matches_nothing(k: Stage) -> None:
    """The member is in the group with nothing, and stays at the first epoch."""
    a = Modern(k, "a")
    joins(a, k.name("nothing-like-this"))
    k.pause(500)
    a.beat()
    describe(k, a.group)


@story("K-023 K-012")
def version_0_knows_no_regex(k: Stage) -> None:
    """A join without names is refused there: there is no field for a regex."""
    a = Modern(k, "a", version=0)
    a.join(subscribed_topic_names=None)


@story("K-307 O-307")
def topics_of_a_regex_keep_their_offsets(k: Stage) -> None:
    """OffsetDelete refuses topics that a member reads by regex, once it is resolved."""
    foo, other = k.topic("foo-1"), k.topic("other")
    a = assigned_by(k, "foo-.*")
    for topic in (foo, other):
        delete(k.line("admin"), a.group, topic)
