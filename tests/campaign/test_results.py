"""What the page shows of the campaigns: a short run does not push out a long one, nor hide what it has found."""

from msgspec.structs import replace

from tests.campaign.page import page
from tests.campaign.results import FULL, Result, kept_since, shown


def a_run(commit: str, seeds: tuple[int, int], broken: dict[int, str] | None = None, what: str = "histories") -> Result:
    units = {"histories": "histories", "kills": "rounds"}
    counts = {units[what]: (seeds[1] - seeds[0] + 1) * (10 if what == "kills" else 1), "requests": 5}
    return Result("2026-01-01", commit, what, seeds, 1.5, counts, broken or {})


LONG = a_run("aaa", (1, FULL["histories"]), {7: "two owners"})


def test_a_later_short_run_does_not_replace_a_long_one() -> None:
    assert shown([LONG, a_run("bbb", (1, 50))]) == {"histories": LONG}


def test_a_later_long_run_replaces_a_longer_one() -> None:
    later = a_run("bbb", (1, FULL["histories"]))
    assert shown([a_run("aaa", (1, 2 * FULL["histories"])), later]) == {"histories": later}


def test_without_a_long_run_the_longest_is_shown_and_the_latest_of_equals() -> None:
    runs = [a_run("aaa", (1, 20)), a_run("bbb", (1, 30)), a_run("ccc", (1, 30)), a_run("ddd", (1, 5))]
    assert shown(runs)["histories"].commit == "ccc"


def test_runs_of_one_commit_are_one_campaign_and_no_seed_counts_twice() -> None:
    half = FULL["kills"] // 20
    runs = [
        a_run("aaa", (half + 1, 2 * half), {half + 2: "lost"}, "kills"),
        a_run("bbb", (1, half), {}, "kills"),
        a_run("aaa", (1, half), {}, "kills"),
        a_run("aaa", (2, 2), {}, "kills"),
    ]
    whole = shown(runs)["kills"]
    assert (whole.commit, whole.seeds, whole.counts["rounds"], whole.counts["requests"], whole.seconds) == (
        *("aaa", (1, 2 * half), FULL["kills"]),
        *(10, 3.0),
    )
    assert whole.broken == {half + 2: "lost"}


def test_a_broken_seed_is_open_until_it_is_played_again_and_keeps_its_promises() -> None:
    again = replace(a_run("bbb", (7, 7)), note="the check was wrong")
    assert kept_since(LONG, 7, [LONG]) is None
    assert kept_since(LONG, 7, [LONG, again]) is again
    assert kept_since(LONG, 7, [LONG, again, a_run("ccc", (7, 7), {7: "again"})]) is None
    assert "seed 7 at aaa: two owners **Open.**" in page([LONG])
    assert "seed 7 at aaa: two owners **Mended** (the check was wrong); the seed keeps all promises at bbb." in page(
        [LONG, again]
    )


def test_what_a_later_short_run_has_broken_is_on_the_page() -> None:
    text = page([LONG, a_run("bbb", (900, 901), {901: "lost"})])
    assert "seed 901 at bbb: lost **Open.**" in text
    assert "seed 5 at 000" not in page([a_run("000", (5, 5), {5: "long ago"}), LONG])
