"""Which request a fault meets, and which requests for faults are refused with a sentence."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.control.faults import Action, FaultPlan, FaultSpec, Match
from coordinator.control.names import SpecError
from coordinator.control.subject import Subject

COMMIT = Subject("OffsetCommit", "c", groups=("g",), topics=("t",), members=("m",), instances=("i",), generation=3)
BEAT = Subject("Heartbeat", "c", groups=("g",), members=("m",), generation=3)
DROP = Action(drop="response")


def hits(plan: FaultPlan, *subjects: Subject) -> list[bool]:
    return [plan.find(subject) is not None for subject in subjects]


@pytest.mark.parametrize(
    "match",
    [Match(), Match(api="OffsetCommit"), Match(group="g"), Match(topic="t"), Match(client="c"), Match(client="m"),
     Match(client="i"), Match(generation=3), Match(api="OffsetCommit", group="g", client="m")],
)  # fmt: skip
def test_a_rule_meets_what_agrees_in_every_field(match: Match) -> None:
    plan = FaultPlan()
    plan.add(FaultSpec(DROP, match))
    assert hits(plan, COMMIT, COMMIT) == [True, False], "one time, by default"


@pytest.mark.parametrize(
    "match", [Match(api="Fetch"), Match(group="h"), Match(topic="u"), Match(client="d"), Match(generation=4)]
)
def test_a_rule_leaves_other_requests_alone(match: Match) -> None:
    plan = FaultPlan()
    plan.add(FaultSpec(DROP, match))
    assert hits(plan, COMMIT, BEAT) == [False, False]


def test_nth_and_after_count_the_requests_that_agree() -> None:
    plan = FaultPlan()
    plan.add(FaultSpec(DROP, Match(api="OffsetCommit", nth=2), count=None))
    assert hits(plan, COMMIT, BEAT, COMMIT, COMMIT, COMMIT) == [False, False, True, False, False]
    plan.clear()
    plan.add(FaultSpec(DROP, Match(after=2), count=2))
    assert hits(plan, COMMIT, COMMIT, COMMIT, COMMIT, COMMIT) == [False, False, True, True, False]


def test_the_oldest_rule_that_is_not_used_up_decides() -> None:
    plan = FaultPlan()
    first, second = plan.add(FaultSpec(DROP)), plan.add(FaultSpec(Action(delay_ms=5), count=None))
    assert [plan.find(COMMIT), plan.find(COMMIT)] == [first, second]
    assert (first.hits, second.hits, first.is_used_up, second.is_used_up) == (1, 1, True, False)
    assert plan.remove(second.number) is second
    assert plan.remove(second.number) is None
    assert hits(plan, COMMIT) == [False]


def test_a_rule_counts_the_requests_that_an_older_one_decides() -> None:
    plan = FaultPlan()
    rules = [plan.add(FaultSpec(DROP, match)) for match in (Match(nth=1), Match(nth=2), Match(after=2))]
    assert [plan.find(COMMIT) for _ in range(4)] == [*rules, None]
    assert [rule.seen for rule in rules] == [1, 2, 3]


def test_a_probability_is_drawn_by_the_rules_own_seed() -> None:
    def run(seed: int) -> list[bool]:
        plan = FaultPlan()
        plan.add(FaultSpec(DROP, count=None, probability=0.5, seed=seed))
        return hits(plan, *[COMMIT] * 200)

    assert run(1) == run(1) != run(2)
    assert 60 < sum(run(1)) < 140


@pytest.mark.parametrize(
    ("action", "applied"),
    [(Action(error="NOT_COORDINATOR"), False), (Action(error="NOT_COORDINATOR", apply=True), True),
     (Action(drop="request"), False), (Action(drop="response"), True), (Action(disconnect="before"), False),
     (Action(disconnect="after"), True), (Action(delay_ms=1), True), (Action(delay_ms=1, apply=False), False)],
)  # fmt: skip
def test_a_request_is_applied_unless_its_fault_prevents_it(action: Action, applied: bool) -> None:
    assert action.is_applied == applied


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        (FaultSpec(Action()), "invalid do: expected one of error, delay_ms"),
        (FaultSpec(Action(error="NOPE")), "invalid do.error 'NOPE': expected Kafka's name of an error"),
        (FaultSpec(DROP, Match(api="Commit")), "invalid on.api 'Commit': expected Kafka's name"),
        (FaultSpec(Action(delay_ms=-1)), "invalid do.delay_ms -1: expected 0 to 2147483647"),
        (FaultSpec(Action(throttle_ms=2**31)), "invalid do.throttle_ms 2147483648: expected 0 to 2147483647"),
        (FaultSpec(DROP, probability=0), "invalid probability 0: expected more than 0"),
        (FaultSpec(DROP, count=0), "invalid count 0: expected 1 or more, or null"),
        (FaultSpec(Action(drop="request", hold=True)), "expected at most one of drop, hold"),
        (FaultSpec(Action(disconnect="after", truncate=0)), "expected at most one of disconnect, truncate"),
        (FaultSpec(DROP, Match(nth=2**31)), "invalid on.nth 2147483648: expected 0 to 2147483647"),
        (FaultSpec(DROP, Match(nth=2, after=2)), "invalid on.nth 2: expected more than on.after"),
        (FaultSpec(DROP, probability=1.01), "invalid probability 1.01: expected more than 0"),
    ],
)
def test_what_could_never_work_is_refused_with_a_sentence(fault: FaultSpec, sentence: str) -> None:
    with pytest.raises(SpecError, match=sentence):
        FaultPlan().add(fault)


SUBJECTS = (COMMIT, BEAT, Subject("Heartbeat", "d", groups=("h",), members=("n",), generation=4))
RULES = st.builds(
    FaultSpec,
    st.just(DROP),
    st.builds(
        Match,
        api=st.sampled_from(("", "", "Heartbeat")),
        group=st.sampled_from(("", "", "g", "h")),
        client=st.sampled_from(("", "", "c", "n")),
        nth=st.sampled_from((0, 0, 1, 2)),
        after=st.sampled_from((0, 0, 1, 2)),
    ).filter(lambda match: match.nth == 0 or match.nth > match.after),
    st.sampled_from((1, 1, 2, None)),
    st.sampled_from((1.0, 1.0, 0.3, 0.8)),
    st.integers(0, 3),
)


@given(st.lists(RULES, min_size=1, max_size=4), st.lists(st.sampled_from(SUBJECTS), max_size=10))
@settings(max_examples=150)
def test_of_several_rules_the_oldest_that_may_and_whose_dice_say_so_decides(
    specs: list[FaultSpec], subjects: list[Subject]
) -> None:
    """A request counts for every rule that it agrees with, unless the rule is used up; dice are thrown for those only
    that may decide."""
    plan = FaultPlan()
    rules = [plan.add(spec) for spec in specs]
    seen, hits, dice = [0] * len(specs), [0] * len(specs), [Random(spec.seed) for spec in specs]
    for subject in subjects:
        may = []
        for at, spec in enumerate(specs):
            is_used_up = (spec.on.nth and seen[at] >= spec.on.nth) or hits[at] == (spec.count or -1)
            if not is_used_up and spec.on.agrees(subject):
                seen[at] += 1
                may += [at] * (seen[at] > spec.on.after and spec.on.nth in (0, seen[at]))
        decided = None
        for at in may:
            if decided is None and (specs[at].probability == 1 or dice[at].random() < specs[at].probability):
                decided = at
                hits[at] += 1
        assert plan.find(subject) is (None if decided is None else rules[decided])
        assert [(rule.seen, rule.hits) for rule in rules] == list(zip(seen, hits, strict=True))
