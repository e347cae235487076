"""`muster pipeline`: what is printed, and the exit codes 0, 2, 3 and 4."""

import argparse
import json
import logging
import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from coordinator.cli import main
from coordinator.core.catalog.names import SHARE_STATE_TOPIC
from coordinator.core.share_state import records as states
from pipeline import commands, locks, manifest, published
from pipeline.arguments import _seconds, add_commands
from pipeline.commands import _failure, _write_page
from pipeline.decode.layout import TOPIC, log_dirs
from pipeline.decode.schema import OFFSET_COMMITS
from pipeline.errors import TablesInUseError, UsageError
from pipeline.session import JavaNotFoundError
from pipeline.synth import Writer, commit
from protocol.records import Record
from tests.commands import Shell, shell_fixture
from tests.pipeline.group_logs import fill, flip

muster = shell_fixture("pipeline")


@pytest.fixture
def logs(muster: Shell, tmp_path: Path) -> Path:
    muster(0, "synth", tmp_path / "logs", "--records", 400, "--lives", 2)
    return tmp_path / "logs"


@pytest.fixture
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.session.session", lambda *_args, **_options: pytest.fail("Spark was started"))


@pytest.fixture
def read_tables(tmp_path: Path, no_spark: None) -> Path:
    """The place of raw tables, which are empty; Spark may not be started."""
    manifest.save(tmp_path, manifest.Manifest())
    return tmp_path


def damage(logs: Path) -> None:
    log = max(logs.rglob("*.log"), key=lambda file: file.stat().st_size)
    flip(log, log.stat().st_size // 2)


def test_without_the_extra_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, muster: Shell, tmp_path: Path
) -> None:
    monkeypatch.setattr("pipeline.session.NEEDED_BY_SPARK", ("numpy", "not_there_at_all"))
    told = "pip install '.[pipeline]' in a checkout (missing: not_there_at_all)"
    assert told in muster(2, "build", "--out", tmp_path)
    muster(0, "synth", tmp_path / "logs", "--records", 10)  # what runs without Spark needs no Spark
    monkeypatch.setattr("pipeline.session.NEEDED", ("nor_this",))
    assert "(missing: nor_this)" in muster(2, "scan", tmp_path)


def test_scan_counts_and_finds_problems(logs: Path, muster: Shell) -> None:
    whole = muster.json(0, "scan", logs)
    assert whole["problems"] == []
    damage(logs)
    hurt = muster.json(3, "scan", logs)
    assert [p["kind"] for p in hurt["problems"]] == ["bad_crc"]
    assert hurt["rows"]["batches"] == whole["rows"]["batches"] - 1
    assert "bad_crc" in muster(3, "scan", logs, "--on-error", "fail").splitlines()[-1]


PRINTED = """
$ scan LOGS
logs:
  __consumer_offsets-0     bytes 516, batches 4, ignored 00000000000000000000.log.swap
  __consumer_offsets-3     bytes 104, batches 1
rows:
  batches                  5
  offset_commits           5
  group_records            0
  share_records            0
  unknown_records          0
  log_problems             1
problems:
  log_dir __consumer_offsets-0, log_partition 0, segment_base 3, pos 104, length 100, kind bad_length, severity problem, from_offset 4, detail no batch begins here; 100 bytes left unread
exit code 3
$ ingest LOGS --out HERE/t
rows:
  batches                  5
  log_problems             1
  offset_commits           5
next offsets:
  __consumer_offsets-0     4
  __consumer_offsets-3     1
problems: 1
exit code 3
$ follow LOGS --out HERE/f --once
rows:
  batches                  5
  offset_commits           5
  log_problems             1
problems: 1
exit code 3
$ verify LOGS
logs: 2
keys: 2
equal: True
unexplained: 0
differences: none
problems:
  __consumer_offsets-0 at byte 104: bad_length, offsets 4 to the end, no batch begins here; 100 bytes left unread
  group g is in several logs
behind: none
unread_bytes: 100
exit code 3
$ compact LOGS/__consumer_offsets-3 --out HERE/c
logs:
  __consumer_offsets-3     bytes_before 104, bytes_after 104, records_before 1, records_after 1, equal True, proof replay is equal
exit code 0
$ synth HERE/s --records 0 --lives 0 --partitions 1
logs: HERE/s
bytes: 0
exit code 0
"""


def test_what_a_job_has_found_is_printed_in_words(tmp_path: Path, muster: Shell) -> None:
    """Of a log of two segments, of which the second one ends in bytes that are no batch, and of a sound one."""
    logs = tmp_path / "logs"
    fill(Writer(logs / f"{TOPIC}-0", segment_bytes=320), range(4))
    fill(Writer(logs / f"{TOPIC}-3"), [7])
    (damaged,) = logs.rglob(f"{3:020}.log")
    damaged.write_bytes(damaged.read_bytes() + b"\xff" * 100)
    (damaged.parent / f"{0:020}.log.swap").touch()
    for story in PRINTED.strip().split("$ ")[1:]:
        command, *lines = story.replace("LOGS", str(logs)).replace("HERE", str(tmp_path)).splitlines()
        printed = muster(int(lines.pop().removeprefix("exit code ")), *command.split())
        assert [line for line in printed.splitlines() if not line.startswith("[")] == lines


def test_a_mistake_of_ours_is_not_called_wrong_use(logs: Path, muster: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    def mistaken(*_: object) -> None:
        raise ValueError("a mistake of ours")

    monkeypatch.setattr("pipeline.jobs.scan.scan", mistaken)
    with pytest.raises(ValueError, match="a mistake of ours"):
        muster(1, "scan", logs)


@pytest.mark.parametrize(
    ("line", "code", "told"),
    [
        ("pipeline.errors.LogDamagedError: a.log at byte 5: bad_crc", 3, "a.log at byte 5: bad_crc"),
        ("pipeline.errors.UsageError: numba is not installed", 2, "numba is not installed"),
        ("FileNotFoundError: a.log", 1, "a.log"),
        (
            "OSError: [Errno 5] Cannot read 'a.log'. Detail: [errno 5] Input/output error",
            1,
            "Cannot read 'a.log': Input/output error",
        ),
        ("ValueError: a mistake of ours", 1, "Job aborted."),
    ],
)
def test_what_a_worker_says_has_the_same_exit_code(
    line: str, code: int, told: str, monkeypatch: pytest.MonkeyPatch, muster: Shell, logs: Path
) -> None:
    from pyspark.errors import PythonException

    def failing(*_: object) -> None:
        raise PythonException(f"Job aborted.\nTraceback (most recent call last):\n  File x\n{line}\n\n\tat a.b.C\n")

    monkeypatch.setattr("pipeline.jobs.scan.scan", failing)
    assert muster(code, "scan", logs) == f"muster pipeline scan: {told}\n"


def test_of_an_error_in_java_the_line_that_says_what_failed_is_told() -> None:
    error = type("Py4JJavaError", (Exception,), {"__module__": "py4j.protocol"})
    said = "An error occurred while calling o66.parquet.\n: java.lang.RuntimeException: no S3A\n\tat a.b.C(C.java:1)\n"
    assert _failure(error(said)) == (1, "java.lang.RuntimeException: no S3A")


@pytest.mark.parametrize("words", ["ingest LOGS --out", "follow LOGS --once --out", "compact LOGS --out", "synth"])
def test_what_the_system_refuses_is_a_failure_and_told_with_its_path(
    words: str, logs: Path, tmp_path: Path, muster: Shell
) -> None:
    """By Python or by Arrow, without the number of the error."""
    (tmp_path / "file").touch()
    told = muster(1, *words.replace("LOGS", str(logs)).split(), tmp_path / "file" / "t").splitlines()[-1]
    assert told.startswith(f"muster pipeline {words.split()[0]}: ")
    assert f"{tmp_path}/file" in told
    assert told.endswith((": Not a directory", ": File exists"))
    assert "rrno" not in told


def test_a_page_that_cannot_be_written_leaves_the_one_that_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page, link = tmp_path / "page.html", tmp_path / "link"
    link.symlink_to(page)
    _write_page(link, "old")
    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", lambda *_: os.close(-1))
        with pytest.raises(OSError, match="Bad file"):
            _write_page(link, "new")
    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == {"page.html": "old", "link": "old"}
    _write_page(link, "new")
    assert (page.read_text(), link.is_symlink()) == ("new", True)
    _write_page(Path("/dev/null"), "new")
    assert not Path("/dev/null").is_file()


@pytest.mark.parametrize("words", [("scan", ""), ("scan", ".", "--topic", ""), ("ingest", ".", "--out", ""), ("report", ".", "--out", ""), ("synth", ""), ("scan", "s3://")])  # fmt: skip
def test_an_empty_word_is_no_path_and_no_name(
    words: tuple[str, ...], logs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A variable of a shell that is not set would lead to the current directory."""
    monkeypatch.chdir(logs)
    with suppress(SystemExit):
        assert main(["pipeline", *words]) == 2
    assert re.search("invalid (path|--topic|--out) (''|s3://): expected ", capsys.readouterr().err)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("synth", "s", "--groups", 0), "invalid --groups '0': expected a whole number from 1 on"),
        (("synth", "s", "--records", -5), "invalid --records '-5': expected a whole number from 0 on"),
        (("synth", "s", "--lives", "x"), "invalid --lives 'x': expected a whole number from 0 on"),
        (("synth", "s", "--seed", "x"), "invalid --seed 'x': expected a whole number"),
        (("synth", "s", "--seed", "1_0"), "invalid --seed '1_0': expected a whole number"),
        (("build", "--out", "t", "--now", "1" * 19), f"invalid --now '{'1' * 19}': expected a whole number from 0 on"),
        (("follow", "l", "--out", "t", "--every", "\u0663"), "expected a whole number from 1 on"),
        (("follow", "l", "--out", "t", "--for", "1_0"), "invalid --for '1_0': expected seconds"),
        (("follow", "l", "--out", "t", "--for", "nan"), "invalid --for 'nan': expected seconds"),
        *(
            (("build", "--out", "t", "--conf", text), f"invalid --conf {text!r}: expected spark.NAME=VALUE")
            for text in ("spark.x", "x=1", "sparkle=1")
        ),
        (("dump", "f", "--json"), "unknown option --json"),
    ],
)
def test_a_wrong_argument_is_named(words: tuple[object, ...], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["pipeline", *map(str, words)])
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--memory", "50m"), "invalid --memory '50m': expected a size such as 1g, at least 472m"),
        (("--memory", "abc"), "invalid --memory 'abc'"),
        (("--executor-memory", "1x"), "invalid --executor-memory '1x'"),
        (("--master", "foo"), "invalid --master 'foo': expected local[N]"),
        (("--master", "local[0]"), "invalid --master 'local[0]': expected local[N]"),
        (("--py-files", "none.whl"), "invalid --py-files 'none.whl'"),
        (("--ends", "nowhere"), "invalid --ends nowhere: expected a directory"),
        (("--events", "nowhere"), "invalid --events nowhere: expected a file"),
        (("--events", __file__), f"invalid --events {__file__}: expected a file of the server's events"),
        (("--events", "s3://a/b"), "invalid --events s3://a/b: expected a path of this machine"),
        (("--ends", "s3://a/b"), "invalid --ends s3://a/b: expected a path of this machine"),
        (("--spark-log", "no/log"), "invalid --spark-log no/log: expected a file in a directory that exists"),
    ],
)
def test_what_spark_would_refuse_is_refused_before_it_starts(
    words: tuple[str, ...], told: str, read_tables: Path, muster: Shell
) -> None:
    (line,) = muster(2, "build", "--out", read_tables, *words).splitlines()
    assert told in line


def test_a_second_build_ends_before_spark_starts(read_tables: Path, muster: Shell) -> None:
    (read_tables / locks.BUILDER).write_text("a process that was killed when it held the lock, with a long name")
    with locks.lock_tables(read_tables, locks.BUILDER):
        told = muster(2, "build", "--out", read_tables)
        assert told == f"muster pipeline build: {read_tables} is being written to by {locks.describe_process()}\n"
    assert (read_tables / locks.BUILDER).read_text() == ""


def test_without_spark_a_large_ingestion_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, muster: Shell, logs: Path, tmp_path: Path
) -> None:
    monkeypatch.setattr("pipeline.session.NEEDED_BY_SPARK", ("not_there_at_all",))
    monkeypatch.setattr("pipeline.jobs.ingest.FEW_BYTES", 0)
    told = muster(2, "ingest", logs, "--out", tmp_path / "t")
    assert "pip install '.[pipeline]' in a checkout (missing: not_there_at_all)" in told
    muster(0, "ingest", logs, "--out", tmp_path / "t", "--engine", "local")


def test_the_tables_are_locked_while_spark_starts(
    read_tables: Path, monkeypatch: pytest.MonkeyPatch, muster: Shell
) -> None:
    """Of two builds that begin in the same moment the second one does not wait for its Spark to be refused."""

    def start(*_words: Any, **_options: Any) -> None:
        with pytest.raises(TablesInUseError), locks.lock_tables(read_tables, locks.BUILDER):
            pass
        raise UsageError("it was locked")

    monkeypatch.setattr("pipeline.session.session", start)
    assert "it was locked" in muster(2, "build", "--out", read_tables)


WRONG_USES = """
import json, sys
from coordinator.cli import main
for words in json.loads(sys.argv[1]):
    assert main(["pipeline", *words]) == 2, words
print(*{"numba", "pandas", "pyspark", "duckdb"}.intersection(sys.modules))
"""


def test_wrong_use_is_told_before_anything_that_decodes_is_imported(tmp_path: Path, logs: Path) -> None:
    nowhere, page, options = tmp_path / "nowhere", tmp_path / "r.html", ("--memory", "50m")
    empty = tmp_path / "empty"
    empty.mkdir()
    uses = [
        ("ingest", nowhere, "--out", nowhere), ("ingest", logs, "--out", nowhere, *options), ("scan", nowhere),
        ("build", "--out", nowhere), ("follow", nowhere, "--out", nowhere), ("optimize", "--out", nowhere),
        ("report", "--tables", nowhere, "--out", page), ("report", logs, "--out", page, *options),
        ("report", logs, "--out", page, "--ends", nowhere), ("report", logs, "--out", page, "--events", nowhere),
        ("report", logs, "--out", empty),
        ("ingest", logs, "--out", nowhere, "--spark-log", nowhere / "log"),
        ("synth", "s3://bucket/x"), ("compact", logs, "--out", "s3://bucket/x"), ("bench", "--out", "s3://bucket/x"),
        ("verify", nowhere), ("verify", logs, "--tables", nowhere), ("scan", logs, "--topic", "x"), ("dump", nowhere),
        ("compact", nowhere, "--out", page), ("compact", logs, "--out", logs), ("synth", logs), ("verify", empty),
        ("compact", empty, "--out", page), ("scan", "gopher://logs"),
        ("bench", "--out", nowhere), ("bench", *options),
    ]  # fmt: skip
    words = json.dumps([[str(word) for word in use] for use in uses])
    done = subprocess.run([sys.executable, "-c", WRONG_USES, words], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "\n"), done.stdout + done.stderr
    lines = done.stderr.splitlines()
    assert [line.partition(":")[0] for line in lines] == [f"muster pipeline {use[0]}" for use in uses], "one line each"
    assert not page.exists()


def test_files_of_events_may_be_given_in_any_way_and_each_counts_once(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("events.jsonl", "events.1.jsonl", "events.2.jsonl")]
    for file in files:
        file.write_text('{"at_ms": 1}\n')
    first, second, third = map(str, files)
    parser = argparse.ArgumentParser()
    add_commands(parser)
    given = ("--events", first, f"{tmp_path}/../{tmp_path.name}/events.jsonl", "--events", second, first, third)
    for words in (("build", "--out", "t", *given), ("report", "l", "--out", "r", *given)):
        assert commands._check_evidence(parser.parse_args(words))[0] == files


@pytest.mark.parametrize("words", [("--now", 5), ("--ends", "nowhere"), ("--events", "nowhere")])
def test_a_report_of_tables_is_not_asked_for_what_only_a_build_can_do(
    words: tuple[object, ...], read_tables: Path, muster: Shell
) -> None:
    told = muster(2, "report", "--tables", read_tables, "--out", read_tables / "r.html", *words)
    assert "invalid --tables: expected logs with --events, --ends or --now, which `build` takes for tables" in told


def test_secrets_are_in_no_line(tmp_path: Path, muster: Shell) -> None:
    where = "s3://AKIAKEY:verysecret@bucket/logs"
    (tmp_path / f"{TOPIC}-0").mkdir()
    for words in (("ingest", where, "--out", tmp_path), ("scan", where), ("ingest", tmp_path, "--out", where)):
        printed = muster(2, *words)
        assert "verysecret" not in printed
        assert "invalid path s3://bucket/logs: expected credentials in the environment" in printed


def test_spark_that_fails_is_one_line_with_its_log(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], read_tables: Path
) -> None:
    from pyspark.errors import PySparkRuntimeError
    from pyspark.logger import PySparkLogger

    def failing(**_: object) -> None:
        log = b"WARN noise\njava.net.BindException: Cannot assign\n\tat a.b.C.withInternalError(C.scala:9)\n"
        os.write(2, log)  # what the Java process writes
        assert PySparkLogger.getLogger("DataFrameQueryContextLogger").disabled
        raise PySparkRuntimeError(errorClass="JAVA_GATEWAY_EXITED", messageParameters={})

    monkeypatch.setattr("pipeline.session.session", failing)
    assert main(["pipeline", "build", "--out", str(read_tables), "--spark-log", f"{read_tables}/log"]) == 1
    lines = capfd.readouterr().err.splitlines()
    assert lines[-1] == f"muster pipeline build: java.net.BindException: Cannot assign (Spark's log: {read_tables}/log)"
    assert any("starting Spark" in line for line in lines)
    assert len(lines) == 2, "Spark's own noise is in its log"


def test_an_interrupted_build_prints_no_stack_trace_and_leaves_no_log(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], read_tables: Path, tmp_path: Path
) -> None:
    class Session:
        client = "as of Spark Connect, which has no status tracker"
        stopped = 0

        def stop(self) -> None:
            self.stopped += 1

    def start(**_: object) -> Session:
        signal.signal(signal.SIGINT, lambda *_: pytest.fail("PySpark's handler asks Java"))
        return session

    def interrupt(*_: object, **_named: object) -> None:
        logging.exception("KeyboardInterrupt while sending command.")  # as Py4J does
        os.kill(os.getpid(), signal.SIGINT)

    session, handler = Session(), signal.getsignal(signal.SIGINT)
    monkeypatch.setattr(logging.getLogger(), "handlers", [])  # as outside of pytest
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("pipeline.session.session", start)
    monkeypatch.setattr("pipeline.jobs.build.build", interrupt)
    try:
        assert main(["pipeline", "build", "--out", str(read_tables)]) == 130
    finally:
        signal.signal(signal.SIGINT, handler)
    assert [line.partition("] ")[2] for line in capfd.readouterr().err.splitlines()] == [
        "starting Spark", "Spark is ready",
    ]  # fmt: skip
    assert (session.stopped, list((tmp_path / "temporary").iterdir())) == (1, [])


def test_verify_agrees_until_a_table_is_wrong(logs: Path, muster: Shell, tmp_path: Path) -> None:
    assert muster.json(0, "verify", logs)["keys"] > 50
    wrong = pa.Table.from_pylist([{"group": "g", "committed_offset": 1}], OFFSET_COMMITS)
    (tmp_path / "t").mkdir()
    pq.write_table(wrong, tmp_path / "t" / "0.parquet")
    whole = [{"log_partition": log.partition, "last_offset": 1 << 40} for log in log_dirs([str(logs)])]
    pq.write_table(pa.Table.from_pylist(whole), tmp_path / "t" / "1.parquet")
    tables = {
        name: published.Table("", (f"{n}.parquet",), 1) for n, name in enumerate(("latest_offsets", "log_health"))
    }
    published.publish(tmp_path / "t", published.Snapshot(build="b", tables=tables), "")
    muster(4, "verify", logs, "--tables", tmp_path / "t", "--json")
    Writer(tmp_path / "lost" / f"{TOPIC}-0").append([commit(("other", "t", 0), 7, 1000)])
    (file,) = (tmp_path / "lost").rglob("*.log")
    flip(file, 70)
    muster(3, "verify", tmp_path / "lost")
    assert muster.json(4, "verify", logs, tmp_path / "lost", "--tables", tmp_path / "t")["problems"], (
        "a mismatch is more"
    )


def test_a_damaged_spot_counts_once_however_often_it_is_read(tmp_path: Path) -> None:
    row = {"log_dir": "d", "segment_base": 0, "pos": 5, "kind": "bad_length", "severity": "problem"}
    rows = pa.Table.from_pylist([row, row | {"pos": 9}, row | {"severity": "info"}])
    for number in range(3):
        pq.write_table(rows, tmp_path / f"{number}")
    known = manifest.Manifest(files={"log_problems": ("0", "1", "2")})
    assert commands._problems(str(tmp_path), known) == 2


def test_dump_prints_lines(tmp_path: Path, muster: Shell) -> None:
    Writer(tmp_path / f"{TOPIC}-0").append([commit(("g", "t", 0), 7, 1000)])
    (file,) = tmp_path.rglob("*.log")
    file.write_bytes(file.read_bytes() + b"\xff" * 9)
    lines = muster(3, "dump", file).splitlines()
    assert lines[1] == "Log starting offset: 0"
    assert '"type":"1","data":{"group":"g","topic":"t","partition":0}' in lines[3]
    assert lines[-1] == f"Found 9 invalid bytes at the end of {file}"


def test_no_name_steers_the_terminal(tmp_path: Path, muster: Shell) -> None:
    """Whoever may commit has chosen these names."""
    for number in range(2):
        made = commit(("g\x1b[2J\nequal: True", "t\x9b1m", 0), 7, 1000)
        Writer(tmp_path / f"{TOPIC}-{number}").append([made])
    printed = muster(3, "verify", tmp_path) + muster(0, "dump", *tmp_path.rglob("*.log"))
    assert "group g\\u001b[2J\\u000aequal: True is in several logs" in printed
    assert '"topic":"t\\u009b1m"' in printed
    assert all(line.isprintable() for line in printed.split("\n"))


def test_dump_of_a_batch_with_a_wrong_checksum_is_a_problem(tmp_path: Path, muster: Shell) -> None:
    writer = Writer(tmp_path / f"{TOPIC}-0")
    for offset in range(2):
        writer.append([commit(("g", "t", 0), offset, 1000)])
    (file,) = tmp_path.rglob("*.log")
    muster(0, "dump", file)
    flip(file, 70)
    assert muster(3, "dump", file).count("isvalid: false") == 1


def test_compact_says_what_it_proved(logs: Path, tmp_path: Path, muster: Shell) -> None:
    said = muster.json(0, "compact", logs, "--out", tmp_path / "c")
    assert {one["proof"] for one in said["logs"].values()} == {"replay is equal"}
    muster(2, "compact", logs, "--out", tmp_path / "c")  # what is there already is not written over
    damage(logs)
    muster(3, "compact", logs, "--out", tmp_path / "d")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c", "logs"], "nothing is left of what was refused"


def test_a_copy_that_says_something_else_is_no_success(
    logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, muster: Shell
) -> None:
    """Whichever of several logs it is; the copies that are equal are not kept either."""
    monkeypatch.setattr("pipeline.jobs.compact.same", lambda log, _: log.partition != 1)
    said = muster.json(4, "compact", logs, "--out", tmp_path / "c")
    proofs = {name: one["proof"] for name, one in said["logs"].items()}
    assert {name for name, proof in proofs.items() if proof == "REPLAY DIFFERS"} == {f"{TOPIC}-1"}
    assert len(proofs) > 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["logs"]


def test_damage_is_an_exit_code_of_ingest(logs: Path, tmp_path: Path, muster: Shell) -> None:
    damage(logs)
    muster(3, "ingest", logs, "--out", tmp_path / "hurt", "--json")
    told = muster(3, "ingest", logs, "--out", tmp_path / "failed", "--on-error", "fail")
    assert "bad_crc" in told.splitlines()[-1]


def test_damage_is_an_exit_code_of_a_report_of_logs(
    logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, muster: Shell
) -> None:
    monkeypatch.setattr("pipeline.commands._build", lambda *_: ({}, 1))  # one problem
    monkeypatch.setattr("pipeline.report.page.collect", lambda _: SimpleNamespace(groups_total=7))
    monkeypatch.setattr("pipeline.report.page.page", lambda *_: "a page")
    assert muster.json(3, "report", logs, "--out", tmp_path / "r.html")["groups"] == 7
    assert (tmp_path / "r.html").read_text() == "a page"


def test_damaged_tables_are_told_in_one_line(logs: Path, tmp_path: Path, no_spark: None, muster: Shell) -> None:
    tables = tmp_path / "t"
    muster(0, "ingest", logs, "--out", tables)
    (file,) = (tables / "raw" / "batches").iterdir()
    file.write_bytes(file.read_bytes()[:20])
    (line,) = muster(1, "optimize", "--out", tables).splitlines()
    assert f"{file} cannot be read: " in line
    (tables / manifest.NAME).write_text("{bad")
    (line,) = muster(2, "build", "--out", tables).splitlines()
    assert "is no manifest" in line


def test_follow_once(logs: Path, tmp_path: Path, muster: Shell) -> None:
    rows = muster.json(0, "follow", logs, "--out", tmp_path / "t", "--once", "--max-bytes", 60_000)["rows"]
    want = muster.json(0, "scan", logs)["rows"]
    assert rows == {name: count for name, count in want.items() if count}
    damage(logs)
    assert muster.json(3, "follow", logs, "--out", tmp_path / "hurt", "--once")["problems"] == 1


def test_without_java_it_says_so(monkeypatch: pytest.MonkeyPatch, muster: Shell, tmp_path: Path) -> None:
    def none() -> None:
        raise JavaNotFoundError("no Java 17 or 21 here")

    monkeypatch.setattr("pipeline.session.java_home", none)
    manifest.save(tmp_path, manifest.Manifest())
    assert "no Java 17 or 21 here" in muster(2, "build", "--out", tmp_path)


@pytest.mark.parametrize(("hurt", "code"), [("nothing", 0), ("unfinished", 0), ("checksum", 3)])
def test_what_is_lost_is_an_exit_code_and_what_is_only_worth_a_word_is_none(
    hurt: str, code: int, tmp_path: Path, muster: Shell
) -> None:
    """A batch that is being written is not lost."""
    logs = tmp_path / "logs"
    fill(Writer(logs / f"{TOPIC}-0"), range(5))
    (file,) = logs.rglob("*.log")
    if hurt == "unfinished":
        file.write_bytes(file.read_bytes()[:-20])
    elif hurt == "checksum":
        flip(file, 200)
    found = muster.json(code, "scan", logs)["problems"]
    assert [one["severity"] for one in found] == {"nothing": [], "unfinished": ["info"], "checksum": ["problem"]}[hurt]
    muster(code, "verify", logs)
    for words in (("ingest",), ("follow", "--once")):
        said = muster.json(code, *words, logs, "--out", tmp_path / words[0])
        assert said["problems"] == (code == 3)


@pytest.mark.parametrize(
    ("first", "are_events"),
    [
        (b"", True), (b'{"at_ms":1,"group":"g"}\n{', True), (b'{"lost":3}\n', True), (b'{"at":1}\n', False),
        (b"[]\n", False), (b"\xff\n", False), (b"at_ms\n", False),
    ],
)  # fmt: skip
def test_a_file_of_events_is_told_by_its_first_line(first: bytes, are_events: bool, tmp_path: Path) -> None:
    """A server that began to write when events had been lost says so first."""
    (tmp_path / "events").write_bytes(first)
    assert commands._holds_events(tmp_path / "events") == are_events


@pytest.mark.parametrize(
    ("size", "master", "is_small"), [(999, None, True), (1_000, None, False), (999, "local[2]", False)]
)
def test_a_build_of_little_data_starts_spark_for_that_unless_it_is_told_which(
    size: int, master: str | None, is_small: bool, read_tables: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "SMALL_BYTES", 1_000)
    (read_tables / "raw/batches").mkdir(parents=True)
    (read_tables / "raw/batches/a").write_bytes(bytes(size))
    asked: list[bool] = []

    def note(_: object, is_small: bool, __: object) -> None:
        asked.append(is_small)
        raise UsageError("enough")

    monkeypatch.setattr(commands, "_settings", note)
    args = SimpleNamespace(events=[], ends=None, master=master)
    with pytest.raises(UsageError, match="enough"):
        commands._build(args, str(read_tables), commands.Progress())  # type: ignore[arg-type]  # what it looks at
    assert asked == [is_small]


def test_a_segment_is_dumped_by_the_topic_that_is_named_or_else_by_its_directory(tmp_path: Path, muster: Shell) -> None:
    key, value = states.ShareSnapshotKey("queue", b"t" * 16, 1), states.ShareSnapshotValue(snapshot_epoch=7)
    written = states.encode(states.StateRecord(key, value))
    Writer(tmp_path / f"{SHARE_STATE_TOPIC}-0").append([Record(*written)])
    (own,) = tmp_path.rglob("*.log")
    copy = tmp_path / own.name
    copy.write_bytes(own.read_bytes())
    expected = muster(0, "dump", own).splitlines()[1:]
    assert '"snapshotEpoch":7' in expected[-1]
    assert muster(0, "dump", copy, "--topic", SHARE_STATE_TOPIC).splitlines()[1:] == expected
    for named in ((copy,), (own, "--topic", TOPIC)):  # as records of the other topic they make no sense
        assert muster(3, "dump", *named).splitlines()[1:] != expected


@pytest.mark.parametrize("option", ["", "option"])
@pytest.mark.parametrize("variable", [None, "variable"])
def test_a_file_of_client_settings_is_named_by_the_address_the_option_or_the_environment(
    option: str, variable: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """In this order, and for clusters alone."""
    monkeypatch.chdir(tmp_path)
    if variable is not None:
        monkeypatch.setenv(commands.COMMAND_CONFIG_VARIABLE, variable)
    given = ["kafka://broker:9092", "kafka://broker:9092?command_config=/own", "/directory", "s3://bucket/directory"]
    named = f"?command_config={tmp_path / (option or variable or '')}" if option or variable else ""
    found = commands._with_settings(given, argparse.Namespace(command_config=option or None))
    assert found == [f"kafka://broker:9092{named}", *given[1:]]


def test_the_help_of_an_option_ends_with_its_default() -> None:
    """In brackets; a word there that is no number says where the default comes from."""
    parser = argparse.ArgumentParser()
    add_commands(parser)
    (jobs,) = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    numbers = {}
    for job, sub in jobs.choices.items():
        for action in sub._actions:
            told = re.search(r"\(([0-9]+)\)$", action.help or "")
            is_number = isinstance(action.default, int | float) and not isinstance(action.default, bool)
            assert is_number == bool(told), (job, action.dest)
            if told:
                numbers[job, action.dest] = (int(told[1]), action.default)
    assert len(numbers) > 5
    assert {of: said for of, (said, default) in numbers.items() if said != default} == {}


@pytest.mark.parametrize("text", ["0", "1.5", "1e3", "inf", "-inf", "nan", "-0.1", "1_0", "", "1s"])
def test_seconds_are_a_number_that_ends(text: str) -> None:
    if text in ("0", "1.5", "1e3"):
        assert _seconds(text) == float(text)
    else:
        with pytest.raises(argparse.ArgumentTypeError, match="expected seconds"):
            _seconds(text)
