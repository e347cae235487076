"""The timeline that a log tells, against a plain statement of each part: data, lines, the summary, the diagram."""

from collections import Counter
from datetime import UTC, datetime
from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from pipeline.history.live import MemberName
from pipeline.history.records import Rebalance
from pipeline.history.timeline import UNCERTAIN, WORDS, as_data, as_line, as_mermaid, describe, summarize

DAY_MS = 86_400_000
UUID = "3f0c5b0e-1111-4222-8333-444455556666"
# By member id: its name, how a line names it, what a summary counts it as.
MEMBERS: Final[dict[str, tuple[MemberName, str, str]]] = {
    f"app-{UUID}": (MemberName("app"), '"app" (3f0c5b0e)', 'client id "app"'),
    "app-2": (MemberName("app", None, "h"), '"app" (app-2)', 'client id "app"'),
    "a-0123456789abcdef": (MemberName("größe\u202e"), '"größe\\u202e" (456789abcdef)', 'client id "größe\\u202e"'),
    "AbCdEfGhIjKlMnOpQrStUv": (MemberName("app", "till-1"), '"till-1"', 'instance "till-1"'),
    "AbCdEfGhIjKlMnOpQrStUw": (MemberName("b"), '"b" (AbCdEfGh)', 'client id "b"'),
    "nobody": (MemberName(), '"nobody"', ""),
}
LEFT = ("leave", "timeout", "leave_or_timeout")
TOPICS = [f"topic-{n}" for n in range(7)]
members = st.lists(st.sampled_from(sorted(MEMBERS)), max_size=3, unique=True)


def naming(group: str, member: str) -> MemberName:
    assert group == "shop"
    return MEMBERS[member][0] if member else MemberName()


@st.composite
def rebalances(draw: st.DrawFn) -> list[Rebalance]:
    """Rebalances one after the other, of any causes, each with members and topics in its detail."""
    made, at_ms = list[Rebalance](), 1_760_000_000_000
    for number in range(draw(st.integers(0, 5))):
        at_ms += draw(st.sampled_from([1, 1500, 90_000, DAY_MS]))
        causes = draw(st.lists(st.sampled_from([*WORDS, "leader_rejoined"]), min_size=1, max_size=3, unique=True))
        said = {name: draw(members) for name in ("joined", "gone", "returned")}
        if not said["returned"]:  # a member that is back explains the rebalance
            said["topics"] = draw(st.lists(st.sampled_from(TOPICS), max_size=7, unique=True))
        one = Rebalance(
            "shop",
            draw(st.sampled_from(["classic", "consumer", "streams"])),
            draw(st.none() | st.integers(0, 9)),
            at_ms,
            100 + number,
            causes,
            "; ".join(f"{name}: {', '.join(ids)}" for name, ids in said.items() if ids),
            draw(st.integers(0, 2)),
            draw(st.integers(0, 2)),
            said["joined"],
            said["gone"],
            sync_ms=draw(st.none() | st.just(7)),
            partitions_moved=draw(st.sampled_from([None, 0, 1, 12])),
            commit_gap_ms=draw(st.sampled_from([None, 0, 1999, 2000, 60_500])),
            commit_gap_partitions=draw(st.sampled_from(["t 0", "x" * 60, "x" * 61, "t\n0"])),
            commit_interval_ms=draw(st.sampled_from([None, 0, 1000])),
        )
        made.append(one)
    return made


def said_of(one: Rebalance, name: str) -> list[str]:
    """The ids or topics behind a word of the detail."""
    parts = dict(part.split(": ") for part in one.cause_detail.split("; ") if part)
    return parts[name].split(", ") if name in parts else []


def named(one: Rebalance, cause: str) -> list[str]:
    """The members that belong to a cause."""
    if cause.startswith("static_rejoin"):
        return said_of(one, "returned")
    return one.joined if cause == "join" else one.left if cause in LEFT else []


def sentence(one: Rebalance) -> str:
    parts = []
    for cause in one.causes:
        whose = [MEMBERS[member][1] for member in named(one, cause)]
        if cause in ("partition_count_change", "topic_found"):
            whose = [f'"{topic}"' for topic in said_of(one, "topics")[:5]]
        words = WORDS.get(cause, "leader rejoined")
        parts.append(f"{words}: {', '.join(whose)}" if whose else words)
    facts = [f"{one.members_before} -> {one.members_after} members"]
    if one.partitions_moved:
        noun = "task" if one.type == "streams" else "partition"
        facts.append({1: f"1 {noun} moved", 12: f"12 {noun}s moved"}[one.partitions_moved])
    if one.commit_gap_ms is not None and one.commit_gap_ms >= 2 * (one.commit_interval_ms or 0):
        where = {"x" * 61: "x" * 59 + "…", "t\n0": "t\\u000a0"}.get(one.commit_gap_partitions or "", one.commit_gap_partitions)  # fmt: skip
        usual = ", usually 1.0 s" if one.commit_interval_ms else ""
        took = {0: "0.0", 1999: "2.0", 2000: "2.0", 60_500: "60.5"}[one.commit_gap_ms]
        facts.append(f"{where} {took} s without a commit{usual}")
    return f"{'; '.join(parts)} ({', '.join(facts)})"


def state(one: Rebalance) -> str:
    return "Dead" if "deleted" in one.causes else "Stable" if one.members_after else "Empty"


def number_of(one: Rebalance) -> str:
    word = "generation" if one.type == "classic" else "epoch"
    return "" if one.generation is None else f" ({word} {one.generation})"


@given(rebalances())
def test_data_and_lines(rows: list[Rebalance]) -> None:
    for one, data in zip(rows, as_data(rows, naming), strict=True):
        assert describe(one, naming) == sentence(one)
        whose = one.left if one.causes[0] in LEFT else one.joined
        member = whose[0] if whose else ""
        name = naming("shop", member)
        same = (
            "at_ms", "group", "type", "generation", "causes", "joined", "left", "partitions_moved", "sync_ms",
            "commit_gap_ms", "commit_gap_partitions", "commit_interval_ms",
        )  # fmt: skip
        certain = not UNCERTAIN.intersection(one.causes)
        assert data == {key: getattr(one, key) for key in same} | {
            "number": one.log_offset, "counts_by": "generation" if one.type == "classic" else "epoch",
            "from": "Stable" if one.members_before else "Empty", "to": state(one), "members": one.members_after,
            "source": "inferred", "certain": certain,
            "cause": {
                "kind": one.causes[0], "member": member, "client_id": name.client_id, "instance": name.instance_id,
                "by": "", "detail": sentence(one),
            },
        }  # fmt: skip
        since = f"+{(one.at_ms - rows[0].at_ms) / 1000:.3f}s"
        clock = datetime.fromtimestamp(one.at_ms // 1000, UTC).strftime("%H:%M:%SZ")
        mark = "inferred" if certain else "inferred, not certain"
        line = f"#{one.log_offset}     {since}  {clock}  {state(one)}{number_of(one)}  {sentence(one)} [{mark}]"
        assert as_line(one, naming, rows[0].at_ms) == line


@given(rebalances())
def test_the_summary_names_what_is_most_frequent(rows: list[Rebalance]) -> None:
    text = summarize("shop", rows, naming)
    if not rows:
        assert text == "shop: no rebalance in what was read"
        return
    head, *more = text.split("; ")
    times = [datetime.fromtimestamp(one.at_ms // 1000, UTC) for one in (rows[0], rows[-1])]
    until = "%H:%M:%SZ" if times[0].date() == times[1].date() else "%Y-%m-%d %H:%M:%SZ"
    plural = "" if len(rows) == 1 else "s"
    assert head.startswith(f"shop: {len(rows)} rebalance{plural} in ")
    assert head.endswith(f", {times[0].strftime('%Y-%m-%d %H:%M:%SZ')} to {times[1].strftime(until)}")
    if len(rows) == 1:
        assert more == []
        return
    causes = Counter(cause for one in rows for cause in one.causes)
    best = causes.most_common(1)[0][1]
    assert more[0] in {
        f"most often ({best}): {WORDS.get(cause, cause)}" for cause, times in causes.items() if times == best
    }
    people = Counter(who for one in rows for who in {MEMBERS[id_][2] for id_ in (*one.joined, *one.left)} if who)
    often = max(people.values(), default=0)
    expected = {f"{who} came or went in {often} of them" for who, times in people.items() if times == often}
    assert more[1:] == [] if often < 2 else more[1] in expected


@given(rebalances())
def test_the_diagram_has_each_member_once_and_each_cause_in_order(rows: list[Rebalance]) -> None:
    names = dict[str, str]()
    body = list[str]()
    for one in rows:
        for cause in one.causes:
            whose = [] if cause.startswith("static_rejoin") else named(one, cause)
            words = WORDS.get(cause, cause).replace(",", "_")
            for shown in [MEMBERS[member][1] for member in whose]:
                body.append(f"  {names.setdefault(shown, f'M{len(names) + 1}')}->>G: {words}")
            body += [] if whose else [f"  Note over G: {words}"]
        body.append(f"  Note over G: {state(one)}{number_of(one)}")
    plain = str.maketrans({'"': "_", "\\": "_"})
    people = [f"  participant {alias} as {shown.translate(plain)}" for shown, alias in names.items()]
    expected = ["sequenceDiagram", "  participant G as shop", *people, *body]
    assert as_mermaid("shop", rows, naming).splitlines() == expected


def test_names_that_are_nothing_but_signs_are_one_line_of_a_diagram() -> None:
    one = Rebalance("", "classic", 1, 0, 1, ["join"], "", 0, 1, ["m"], [])
    diagram = as_mermaid("g\n;" + "x" * 90, [one], lambda _group, _member: MemberName("\n"))
    assert diagram.splitlines()[1:3] == [f"  participant G as g__{'x' * 77}", "  participant M1 as __n_ (m)"]
    assert as_mermaid("", [], naming).splitlines()[1] == "  participant G as _"
