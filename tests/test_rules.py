"""Every rule of the rule book is named by a test that shows it, or it is said here why nothing here can show it.

The rule book is the project's own, of how Kafka behaves; docs/rules.md says in a line what each number is about.
A rule counts as named where it stands in something that runs: a script, a test file, a story that Kafka has recorded.
What is excused must be no rule that a test names: a row that has become untrue fails.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

HERE = Path(__file__).parent
CONSUMER_CHAPTERS = ("consumer_*.py", "migration.py", "group_configs.py")

RULES = {  # by prefix: the numbers that the rule book has
    "C": "1-7 10-16 20-23 30-33 100-102 110-117 120-125 130-143 150-161 165-172 175-182 200-215 250-256 300-316 350-360 "
    "400-401 410-414 420-424 430-438 500-505",
    "O": "1-8 20-32 40-52 100-102 110-123 130-138 200-219 300-309 400-410 420-422",
    "A": "1-14 100-109 300-309",
    "F": "1-19",
    "G": "1-5 10-22 30-32 40-48 50-54",
    "R": "1-4 10-14 20-23 40-47 50-54 60-74",
    "L": "1-18",
    "Q": "1-42",
    "T": "1-20",
    "V": "1-7",
    "K": "1-402",  # consumer groups
}
LAST_SETTING = "K-028"  # the book of classic groups counts settings by the same letter

SHOWN_BY = {  # a file, with its test where it is one of Python
    # bytes and versions: every schema in every version against Kafka's own serializer
    "G-010 to G-022": "protocol/test_kafka_serializer.py::test_we_read_and_write_what_kafka_does",
    "O-309 Q-030 K-010": "protocol/test_kafka_serializer.py::test_we_read_and_write_what_kafka_does",
    "V-001 V-002 V-006 K-402": "runtime/test_router.py::test_the_default_offers_what_apache_kafka_4_3_1_was_seen_to_offer",
    "V-004": "core/scripts/offsets/fetch_by_version.txt",
    # the turn: one request after the other, one append, and then the answers
    "G-054 K-370 K-372": "server/test_frontend.py::test_requests_of_one_connection_are_answered_in_their_order",
    "G-050 O-047 O-215 K-150 K-371 K-373 K-374": "server/test_frontend.py::test_nobody_hears_of_what_could_not_be_written",
    "G-052 K-186 K-315 K-375": "server/test_frontend.py::test_nobody_hears_of_what_could_not_be_written",
    # the log
    "K-293": "core/test_records.py::test_what_is_written",
    "K-345": "core/test_replay.py::test_what_nobody_knows_is_skipped",
    "K-348 R-046": "storage/test_kafka.py::test_kafka_reads_what_we_write",
    "K-366 K-382": "core/test_store.py::test_the_store_is_its_log",
    "K-390": "core/test_replay.py::test_sessions_run_from_the_end_of_loading",
    # offsets, for groups of both kinds
    "K-287": "core/scripts/offsets/commit_who_may.txt",
    "K-301": "core/scripts/offsets/commit_simple.txt",
    "K-331": "core/scripts/offsets/delete_group.txt",
    "O-008": "core/scripts/offsets/commit_simple.txt",
    "O-023": "core/scripts/consumer/commits.txt",
    "O-102": "core/transactions/test_transactions.py",
    # topics, settings
    "K-332": "test_config.py::test_settings_that_contradict_each_other_are_refused",
    "K-394": "core/scripts/consumer/topics_change.txt",
    "F-018": "conformance/stories/find_coordinator.py",
}

EXCUSED = {  # why a rule has no place in one server of this kind
    "nobody is refused: without an authorizer everything is allowed": (
        "A-001 A-101 F-005 F-006 K-003 K-004 K-085 K-302 K-319 K-335 O-002 O-110 O-111 O-202 O-204 O-300"
    ),
    "a failed append ends the process, and the next start reads what was written: there is nothing to take back": (
        "C-207 C-424 G-046 G-047 G-051 G-053 O-219 K-107 K-166 K-306 K-376 K-378 K-383 to K-387"
    ),
    "one node owns every partition from its start to its end; what it stops with are its connections": (
        "F-009 F-019 G-041 L-016 O-210 K-005 K-175 K-388 K-389 K-392 K-393 K-395"
    ),
    "the internal topics are there before the first client": "F-008 F-017",
    "a turn is a batch, which holds what its requests lead to, whatever its size": "O-048 K-379 K-380 K-381",
    "there are no share groups and no streams groups": "C-505 K-230 K-288",
    "there are no clusters before KRaft and no brokers before 4.2": "C-401 K-064",
    "what is slow is resolved between two turns: there are no tasks to be scheduled twice": "K-397",
    "a summary of other rules, or advice": "K-011 K-110",
    "consumer groups are always enabled": "K-002",
    "Kafka's own names of metrics": "O-136 K-080 K-399 to K-401",
}


def expanded(text: str) -> Iterator[str]:
    """The rules that a text names: `C-110`, and all of `C-110 to C-112` or `K-012 ... K-021`."""
    for prefix, first, last in re.findall(r"\b([A-Z])-(\d{3})(?: (?:to|\.\.\.) \1-(\d{3}))?\b", text):
        for number in range(int(first), int(last or first) + 1):
            yield f"{prefix}-{number:03}"


def rules() -> set[str]:
    return {
        f"{prefix}-{number:03}"
        for prefix, text in RULES.items()
        for part in text.split()
        for number in range(int(part.split("-")[0]), int(part.split("-")[-1]) + 1)
    }


def running() -> Iterator[Path]:
    """The files of which pytest runs what they say."""
    yield from HERE.rglob("core/scripts/**/*.txt")
    yield from (path for path in HERE.rglob("test_*.py") if path != Path(__file__))
    yield from HERE.glob("conformance/stories/*.py")


def is_setting(rule: str, path: Path) -> bool:
    """Whether a K is the number of a setting: it is in the stories about all that is no consumer group."""
    elsewhere = path.parent.name == "stories" and not any(path.match(chapter) for chapter in CONSUMER_CHAPTERS)
    return elsewhere and rule.startswith("K") and rule <= LAST_SETTING


def named() -> set[str]:
    """The rules that tests name."""
    return {rule for path in running() for rule in expanded(path.read_text()) if not is_setting(rule, path)}


def listed(table: Mapping[str, str]) -> list[str]:
    return [rule for text in table for rule in expanded(text)]


EXCUSES = {rules: reason for reason, rules in EXCUSED.items()}


def test_every_rule_is_shown_or_excused() -> None:
    assert sorted(rules() - named() - {*listed(SHOWN_BY), *listed(EXCUSES)}) == []


def test_every_rule_can_be_looked_up() -> None:
    """docs/rules.md has each of them once, and no other."""
    page = (HERE.parent / "docs" / "rules.md").read_text("utf-8")
    heads = re.findall(r"^- \*\*(.+?)\*\* \S", page, re.MULTILINE)
    assert sorted(rule for head in heads for rule in expanded(head)) == sorted(rules())


def test_nothing_is_excused_that_a_test_shows() -> None:
    excused = listed(EXCUSES)
    assert len(excused) == len(set(excused))
    assert set(excused) <= rules()
    assert sorted(set(excused) & {*named(), *listed(SHOWN_BY)}) == []


def test_what_shows_a_rule_is_there() -> None:
    assert set(listed(SHOWN_BY)) <= rules()
    for where in SHOWN_BY.values():
        path, _, test = where.partition("::")
        text = (HERE / path).read_text()
        assert not test or re.search(rf"^(async )?def {test}\(", text, re.MULTILINE), where


def test_only_what_runs_counts() -> None:
    """A rule that only this file or a helper names is not shown."""
    assert "K-012" in set(expanded("K-010 ... K-013")) and "C-111" in set(expanded("C-110 to C-112"))
    assert Path(__file__) not in set(running())
    assert {path.suffix for path in running()} == {".py", ".txt"}
    assert not any(path.name in ("commands.py", "script.py", "model.py") for path in running())
