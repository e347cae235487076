"""The parts of the product that are mutated, with the tests that must find the faults and the share they must find."""

from msgspec import Struct


class Area(Struct, frozen=True):
    """A part of the product: the folders and modules to mutate, and the tests that run against each mutant."""

    folders: tuple[str, ...]
    tests: tuple[str, ...]
    goal: float  # the least share of the mutants that the tests must find
    ignored: tuple[str, ...] = ()  # of the tests
    needs_spark: bool = False
    by_processes: tuple[str, ...] = ()
    """Of the tests: those that start this code in processes of their own. They run against each mutant."""


PROCESSES = (
    *(f"tests/server/test_{name}.py" for name in ("live", "live_fuzz", "locked_crowd", "neighbours")),
    *(f"tests/admin/test_{name}.py" for name in ("control", "metrics_formats", "page")),
)
"""Tests of a server in a process of its own: which lines they reach is not seen."""
PLANT_FAULTS = ("tests/storage/test_mutants.py",)
"""Tests that break the product themselves, to show that other tests notice."""
SLOW = (
    "tests/storage/test_crashes.py::test_every_flipped_bit_is_told_with_its_file",
    "tests/storage/test_crashes.py::test_no_failing_call_loses_what_was_acknowledged",
    "tests/storage/test_crashes.py::test_a_torn_file_of_a_compaction_is_refused_or_never_looked_at",
    "tests/storage/test_appended_keys.py::test_a_compaction_that_is_given_up_changes_no_state",
    "tests/storage/test_appended_keys.py::test_both_logs_hold_the_same_after_each_compaction",
)
"""Tests that are half of the time of an area: what they alone find counts as not found."""

STORIES = "tests/conformance/test_replay.py::test_muster_says_what_kafka_said"
SERVER_PARTS = tuple(f"tests/server/test_{name}.py" for name in ("group_commit", "quotas"))
BROKERS = tuple(f"tests/control/test_{name}.py" for name in ("brokers", "operator", "replay", "scenarios"))
TABLES = tuple(f"tests/pipeline/test_tables{name}.py" for name in ("", "_commits", "_copies", "_groups"))
LOGS = tuple(
    f"tests/pipeline/test_{name}.py"
    for name in (
        "classic_history",
        "cluster",
        "cluster_ends",
        "commands",
        "compact",
        "copies",
        "damage",
        "decode",
        "dump",
        "epoch_history",
        "history",
        "identity",
        "ingest",
        "live",
        "live_batches",
        "living_log",
        "locks",
        "log_dirs",
        "log_ends",
        "object_store",
        "ownership",
        "plan",
        "published",
        "pushdown",
        "real_kafka",
        "reduction",
        "report",
        "report_counts",
        "report_page",
        "share_history",
        "sink",
        "spans",
        "synth",
        "timeline",
        "verify",
    )
)
"""Tests of the pipeline that start no Spark, but for one."""
STARTS_SPARK = ("tests/pipeline/test_cluster.py::test_spark_reads_a_cluster_and_a_stream_goes_on_from_its_checkpoint",)
WITHOUT_SPARK = (
    *(
        f"pipeline/{name}.py"
        for name in (
            "arguments",
            "commands",
            "dump",
            "locks",
            "manifest",
            "options",
            "plan",
            "published",
            "pushdown",
            "sink",
            "synth",
            "synth_groups",
        )
    ),
    *(f"pipeline/jobs/{name}.py" for name in ("compact", "ingest", "optimize", "scan", "verify")),
)
"""Modules of the pipeline that start no Spark, beside its folders of such."""

AREAS = {
    "core": Area(
        ("coordinator/core",),
        ("tests/core", "tests/runtime/test_topics_deleted_while_loading.py", *BROKERS, STORIES),
        0.85,
    ),
    "runtime": Area(
        ("coordinator/runtime",),
        ("tests/runtime", "tests/dataplane", *SERVER_PARTS, *BROKERS, STORIES),
        0.85,
    ),
    "dataplane": Area(
        ("coordinator/dataplane",),
        ("tests/dataplane", "tests/runtime/test_coordinators_move.py", "tests/runtime/test_nothing_stays.py", STORIES),
        0.85,
    ),
    "protocol": Area(
        ("protocol",),
        (
            "tests/protocol",
            "tests/server/test_error_counts.py",
            "tests/storage/test_log.py",
            "tests/storage/test_gaps.py",
        ),
        0.85,
    ),
    "storage": Area(("storage",), ("tests/storage", "tests/control/test_restarts.py"), 0.85, PLANT_FAULTS + SLOW),
    "server": Area(("coordinator/server",), ("tests/server", "tests/control", "tests/admin"), 0.75, PROCESSES),
    "operator": Area(
        ("coordinator/cli", "coordinator/admin", "coordinator/control", "coordinator/client"),
        ("tests/cli", "tests/admin", "tests/control", "tests/client"),
        0.75,
        PROCESSES,
    ),
    "pytest-muster": Area(
        ("pytest-muster/src",), ("tests/pytest_muster",), 0.75, by_processes=("tests/pytest_muster/test_plugin.py",)
    ),
    "logs": Area(("pipeline/decode", "pipeline/history", "pipeline/report", *WITHOUT_SPARK), LOGS, 0.75, STARTS_SPARK),
    "pipeline": Area(("pipeline/tables",), TABLES, 0.75, needs_spark=True),
}

# Mutants that change nothing that anybody could see: function and line that they put in, and the reason.
EQUIVALENT = {
    "KeyIndex.set_marks: for number, offset in enumerate(self.latest.values(), 2):": (
        "only where a step of a compaction ends moves by a key"
    ),
    "Log.latest_time: latest = max([segment.max_timestamp for segment in self.segments], default=-2)": "any below 0 is none",
    "_Reader.read: rest = file.pread(segment.size, size + segment.size)": "what lies behind the end of a file is not read",
    '_short: swapped = int.from_bytes(low.to_bytes(8, "little"), )': '"big" is the default',
    "Engine.__init__: self._first = 1  # of the partitions, when timers fire": "they take turns, whoever is the first",
    'write_logs: for directory in sorted({path.rpartition("/")[0] for path in snapshot}):': "a path has one slash",
    "java_hash: for bits, power, mask in _folds(SHORT_UNITS if len(units) <= 2 / SHORT_UNITS else UNITS_MAX):": (
        "more folds than a short text needs change nothing"
    ),
    "restart_timers: return Result(effects=sessions)": "a result without a group leaves it as it is",
    "Scram.__init__: self._nonces = None": "the first message sets it before the second one reads it",
    "_latest_ms: if found.position > step_end:": "only where a step ends moves by a byte",
    "Repacker.upto: self._plain, self._plain_bytes = [], 1": "only where a batch of many ends moves by a byte",
    "fence: return _prepare(raised, None, V2, now_ms)": "only its truth is asked",
    "Frontend.receive: if api_key > 0:": "Produce, whose key is 0, is never decided as it arrives",
    "AppendedKeys._note_transactional: single = [record for record in records if type(None) is not KeyFamily]": (
        "only an assertion rests on it"
    ),
    "SecureLink.continue_handshake: self.is_handshaking = None": "only its truth is asked",
    "SecureLink._flush: sent = self.sock.send(sealed) if (sealed) or True else 0": "to send nothing sends nothing",
    "Producer.__init__: self.last_offset = None": "its first batch sets it before anybody reads it",
}

# Functions that run elsewhere, where no mutant is: on other systems, and in the workers of Spark. By the beginnings of
# their modules and names.
ELSEWHERE = (
    "coordinator/server/selector.py:Kqueue.",
    "pipeline/tables/history.py:_",
    *(f"pipeline/tables/shares.py:{name}" for name in ("_histories", "_rows", "_end")),
)
