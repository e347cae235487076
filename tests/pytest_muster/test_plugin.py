"""pytest-muster as its users meet it: tests of its own kind, run by a pytest of their own against a real server."""

import http.server
import os
import re
import sys
import threading
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from pytest_muster import Muster, MusterError, Server

from tests.live import Muster as LiveServer
from tests.live import wait_until

pytest_plugins = "pytester"

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "pytest-muster" / "src"
COMMAND = f"{sys.executable} -m coordinator"
IS_INSTALLED = bool(entry_points(group="pytest11", name="muster"))
LOAD = "" if IS_INSTALLED else "-p pytest_muster.plugin"  # one that is installed is loaded by itself, and only once

LEAK = """
    import pytest

    @pytest.mark.parametrize("number", range(%d))
    def test_nothing_is_left(muster, number):
        assert muster.groups() == []
        assert muster.state() == {"topics": {}, "offsets": {}}
        topic = muster.topic("orders", 2)
        muster.commit("billing", "orders", {0: number, 1: 7})
        assert muster.group("billing").offsets() == {topic: {0: number, 1: 7}}
        assert topic == muster.name("orders")
        muster.fault({"error": "NOT_COORDINATOR"}, {"group": muster.group("billing").id}, count=None)
"""


@pytest.fixture
def inner(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A pytest with the plugin, and the command of this tree, if PYTHONPATH does not name another one."""
    given = os.environ.get("PYTHONPATH")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([*([given] if given else []), str(SOURCE), str(ROOT)]))
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    for name in ("MUSTER_ADMIN", "MUSTER_BOOTSTRAP"):
        monkeypatch.delenv(name, raising=False)
    pytester.makeini(f"[pytest]\nmuster_command = {COMMAND}\naddopts = {LOAD} -p no:cacheprovider\n")
    return pytester


def test_nothing_leaks_from_test_to_test(inner: pytest.Pytester) -> None:
    inner.makepyfile(LEAK % 50)
    inner.runpytest_subprocess("-q").assert_outcomes(passed=50)


def test_workers_share_a_running_server_without_meeting(inner: pytest.Pytester, tmp_path: Path) -> None:
    with LiveServer(tmp_path, "--ephemeral") as server:
        for prefix in ("gw0-", "gw1-"):  # of an earlier run
            Muster(server.kafka, server.ready["admin"], prefix, "session0-").topic("left")
        inner.makepyfile(LEAK % 24)
        shared = ("--muster-admin", server.ready["admin"], "--muster-bootstrap", server.kafka)
        inner.runpytest_subprocess("-q", "-n", "2", *shared).assert_outcomes(passed=24)
        left = Muster(server.kafka, server.ready["admin"])
        assert (left.groups(), left.state()) == ([], {"topics": {}, "offsets": {}}), "each test is followed by a reset"
        seen = {event["event"]["group"] for event in left.admin.call("GET", "/events")["events"]}
        assert {name.partition("-")[0] for name in seen} == {"gw0", "gw1"}, "each worker has kept to its own names"


def test_what_an_earlier_run_has_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    with LiveServer(tmp_path, "--ephemeral") as server:
        plain, alone, worker = (
            Muster(server.kafka, server.ready["admin"], *names)
            for names in (("", ""), ("", "session0-"), ("gw0-", "session0-"))
        )
        ours = {"testing-a": 1, "module-b": 1, "session-c": 1}
        theirs = {"session0-a": 1, "test12-b": 2, "module3-c": 1}
        workers = {"gw0-session0-a": 1, "gw0-test1-a": 1}
        plain.admin.call("POST", "/v1/state", {"topics": ours | theirs | workers})
        plain.commit("session0-loader", "testing-a", {0: 5})
        plain.remove_leftovers()  # nothing is named for a test here
        assert plain.state()["topics"] == ours | theirs | workers
        alone.remove_leftovers()
        assert plain.state() == {"topics": ours | workers, "offsets": {}}
        worker.remove_leftovers()
        assert plain.state()["topics"] == ours


def test_a_running_server_is_named_by_the_options_else_by_the_environment(
    inner: pytest.Pytester, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner.makepyfile("""
        import pathlib

        def test_shows(muster):
            found = [muster.admin.url, muster.bootstrap, muster.name("a")]
            pathlib.Path("shown").write_text(" ".join(found))
    """)
    with LiveServer(tmp_path, "--ephemeral") as server:
        admin, nowhere = server.ready["admin"], "127.0.0.1:1"

        def run(*options: str, **environment: str) -> str:
            with monkeypatch.context() as patch:
                for name, value in environment.items():
                    patch.setenv(name, value)
                inner.runpytest_inprocess("-q", *options).assert_outcomes(passed=1)
            return re.sub(r"test\d+", "test", (inner.path / "shown").read_text("utf-8"))

        url = Muster("", admin).admin.url
        given = ("--muster-admin", admin, "--muster-bootstrap", "127.0.0.1:7")
        assert run(*given, MUSTER_ADMIN=nowhere, MUSTER_BOOTSTRAP=nowhere) == f"{url} 127.0.0.1:7 test-a"
        assert run(MUSTER_ADMIN=admin, MUSTER_BOOTSTRAP="127.0.0.1:8") == f"{url} 127.0.0.1:8 test-a"
        assert run(MUSTER_ADMIN=admin, PYTEST_XDIST_WORKER="gw9") == f"{url} 127.0.0.1:9092 gw9-test-a"


CROWD = (
    LEAK
    + """
        if number %% 10 == 0:  # a real client is slower than all the rest
            from confluent_kafka import Consumer

            consumer = Consumer({"bootstrap.servers": muster.bootstrap, "group.id": muster.name("live"), "client.id": "a"})
            consumer.subscribe([topic])
            for _ in range(1000):
                if consumer.assignment():
                    break
                consumer.poll(0.1)
            muster.group("live").wait(state="Stable", members=1, assigned={"a": {topic: [0, 1]}}, timeout_ms=100_000)
            consumer.close()
"""
)


@pytest.mark.long  # half a minute
def test_two_hundred_tests_on_one_server_leave_nothing(inner: pytest.Pytester, tmp_path: Path) -> None:
    with LiveServer(tmp_path, "--ephemeral") as server:
        inner.makepyfile(CROWD % 200)
        shared = ("--muster-admin", server.ready["admin"], "--muster-bootstrap", server.kafka)
        result = inner.runpytest_subprocess("-q", "-n", "4", *shared)
        result.assert_outcomes(passed=200)
        left = Muster(server.kafka, server.ready["admin"])
        faults = left.admin.call("GET", "/v1/faults")["faults"]
        assert len(left.groups()) <= 8, "what the last test of each worker has left"
        assert len(left.state()["topics"]) <= 4 and len(faults) <= 4
        held = {what: server.metric("muster_held_bytes", what=what) for what in ("requests", "responses")}
        assert held == {"requests": 0.0, "responses": 0.0}
        left.reset()
        assert (left.groups(), left.state()) == ([], {"topics": {}, "offsets": {}})
        wait_until("every client has left", lambda: server.metric("muster_connections") == 0)


def test_a_failed_test_shows_the_timeline_of_its_groups(inner: pytest.Pytester) -> None:
    inner.makepyfile("""
        from confluent_kafka import Consumer

        def test_a_member_stays(muster):
            topic = muster.topic("orders", 2)
            group = muster.group("billing")
            settings = {"bootstrap.servers": muster.bootstrap, "group.id": group.id, "client.id": "a"}
            consumer = Consumer(settings)
            consumer.subscribe([topic])
            for _ in range(1000):  # 100 s at most
                if consumer.assignment():
                    break
                consumer.poll(0.1)
            group.wait(state="Stable", members=1, assigned={"a": {topic: [0, 1]}})
            muster.verify({"api": "JoinGroup", "group": group.id})
            group.expire("a", reason="for the test")
            consumer.close()
            muster.verify({"event": "session_expired", "group": group.id, "times": 0})
    """)
    result = inner.runpytest_subprocess("-q")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "E  *pytest_muster.admin.ExpectationError: *",
            "*muster: timeline of group test1-billing*",
            '#* session expired: "a"*',
        ]
    )


def test_a_client_in_an_event_loop_joins_while_another_thread_waits(inner: pytest.Pytester) -> None:
    inner.makepyfile("""
        import asyncio

        from aiokafka import AIOKafkaConsumer

        async def join(muster):
            topic, group = muster.topic("orders", 2), muster.group("billing")
            settings = {"bootstrap_servers": muster.bootstrap, "group_id": group.id, "client_id": "a"}
            async with AIOKafkaConsumer(topic, **settings):
                await asyncio.to_thread(group.wait, state="Stable", members=1)

        def test_joins(muster):
            asyncio.run(join(muster))
    """)
    inner.runpytest_subprocess("-q").assert_outcomes(passed=1)


def test_a_wait_that_is_in_vain_fails_the_test(inner: pytest.Pytester) -> None:
    inner.makepyfile("""
        def test_waits(muster):
            muster.group("billing").wait(state="Stable", timeout_ms=10)
    """)
    result = inner.runpytest_subprocess("-q")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["E  *pytest_muster.admin.ExpectationError: not within 10 ms: there is no group 'test1-billing'"]
    )


def test_the_example_of_the_readme_passes(inner: pytest.Pytester) -> None:
    readme = (SOURCE.parent / "README.md").read_text("utf-8")
    example, fixtures = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    inner.makepyfile(test_example=example)
    inner.makepyfile(
        conftest=fixtures,
        test_fixtures="def test_both(bootstrap_servers, catalogue): assert catalogue.endswith('-catalogue')",
    )
    inner.runpytest_subprocess("-q").assert_outcomes(passed=2)


def test_options_of_the_server_come_from_the_ini_file(inner: pytest.Pytester) -> None:
    inner.makeini(
        f"[pytest]\nmuster_command = {COMMAND}\naddopts = {LOAD}\n"
        "muster_options = --topic kept:3 --set group.max.size=7\n"
    )
    inner.makepyfile("""
        def test_options(muster):
            assert muster.state()["topics"] == {"kept": 3}
    """)
    inner.runpytest_subprocess("-q").assert_outcomes(passed=1)


def test_a_missing_command_names_the_ways_to_give_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MusterError, match=r"beside pytest-muster.* PATH, .*muster_command.*MUSTER_ADMIN"):
        Server(tmp_path, [])


def test_a_server_that_cannot_start_says_why(tmp_path: Path) -> None:
    server = Server(tmp_path, ["--set", "group.max.size=0"], COMMAND)
    with pytest.raises(
        MusterError, match=r"exit code 2: .*invalid group\.max\.size '0'|exit code 2: .*group\.max\.size 0"
    ):
        server.start()


@pytest.mark.parametrize(
    ("command", "options", "complaint"),
    [
        ("/nowhere/muster", [], r"cannot run /nowhere/muster: No such file or directory"),
        (COMMAND, ["--admin", "off"], r"the server has no admin port: take --admin off out of muster_options"),
    ],
)
def test_a_server_that_cannot_be_steered_is_refused(
    tmp_path: Path, command: str, options: list[str], complaint: str
) -> None:
    with pytest.raises(MusterError, match=complaint):
        Server(tmp_path, options, command).start()


def test_a_failure_shows_the_line_of_the_test(inner: pytest.Pytester) -> None:
    """What the package does to make a call is of no interest."""
    inner.makepyfile("""
        def test_expires(muster):
            muster.group("billing").expire("a")
    """)
    result = inner.runpytest_subprocess("-q", "--tb=short")
    result.stdout.fnmatch_lines(["test_*.py:2: in test_expires", "E * there is no group 'test1-billing'"])
    result.stdout.no_fnmatch_line("*admin.py*")


def test_a_server_of_the_session_has_timelines_too(inner: pytest.Pytester) -> None:
    inner.makepyfile("""
        def test_moves(muster_server):
            muster_server.topic("orders")
            muster_server.commit("billing", "orders", {0: 1})
            muster_server.group("billing").forget()
            assert False
    """)
    inner.runpytest_subprocess("-q").stdout.fnmatch_lines(
        ["*muster: timeline of group session0-billing*", "#*group forgotten*"]
    )


def test_a_bootstrap_address_without_a_server_is_refused(inner: pytest.Pytester) -> None:
    result = inner.runpytest_subprocess("--muster-bootstrap", "127.0.0.1:9092")
    result.stderr.fnmatch_lines(["ERROR: --muster-bootstrap needs --muster-admin or MUSTER_ADMIN*"])


def test_a_port_of_another_program_is_named() -> None:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"hello")

        def log_message(self, *arguments: object) -> None:
            """Print nothing."""

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.handle_request).start()
        with pytest.raises(MusterError, match=rf"http://127\.0\.0\.1:{server.server_port} is not the admin port of"):
            Muster("", f"127.0.0.1:{server.server_port}").groups()


@pytest.mark.parametrize(
    "url", ["https://localhost:8092", "http://", "http://localhost/v1", "localhost:8092/v1", "localhost:x", "[::1"]
)
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="expected HOST:PORT or http://HOST:PORT"):
        Muster("localhost:9092", url)


def test_a_server_that_is_not_there_is_named() -> None:
    with pytest.raises(MusterError, match=r"no answer from http://127\.0\.0\.1:1 to GET"):
        Muster("localhost:9092", "http://127.0.0.1:1").groups()


def test_a_client_that_a_failed_test_leaves_open_meets_no_other_test(inner: pytest.Pytester) -> None:
    """Names are the same in both tests here: it is the reset that keeps the client out, and no name."""
    inner.makeini(
        f"[pytest]\nmuster_command = {COMMAND}\naddopts = {LOAD} -p no:cacheprovider\nmuster_unique_names = false\n"
    )
    inner.makepyfile("""
        from confluent_kafka import Consumer

        LEFT = []

        def join(muster, name):
            topic, group = muster.topic("orders", 2), muster.group("billing")
            assert (topic, group.id) == ("orders", "billing")
            consumer = Consumer({
                "bootstrap.servers": muster.bootstrap, "group.id": group.id, "client.id": name,
                "heartbeat.interval.ms": 100,
            })
            consumer.subscribe([topic])
            for _ in range(1000):
                if consumer.assignment():
                    return consumer
                consumer.poll(0.1)

        def test_fails(muster):
            LEFT.append(join(muster, "zombie"))
            assert False

        def test_is_alone(muster):
            consumer = join(muster, "b")
            for _ in range(1000):  # until the client of before has come back, and was told
                if any(message and message.error() for message in [LEFT[0].poll(0.1)]):
                    break
            assert [one["client_id"] for one in muster.group("billing").describe()["members"]] == ["b"]
            assert "zombie" not in muster.group("billing").timeline_text()
            muster.verify({"api": "JoinGroup", "client": "zombie", "times": 0})
            consumer.close()
    """)
    inner.runpytest_subprocess("-q").assert_outcomes(passed=1, failed=1)


def test_names_are_those_of_one_test_and_what_a_wider_scope_has_made_stays(inner: pytest.Pytester) -> None:
    inner.makeini(
        f"[pytest]\nmuster_command = {COMMAND}\naddopts = {LOAD} -p no:cacheprovider\nmuster_options = --topic kept:3 --topic test:1\n"
    )
    inner.makepyfile("""
        import pytest

        @pytest.fixture(scope="session")
        def catalogue(muster_server):
            return muster_server.topic("catalogue", 2)

        @pytest.fixture(scope="module")
        def orders(muster_module):
            muster_module.commit("loader", muster_module.topic("orders", 2), {0: 7})
            return muster_module.name("orders")

        @pytest.mark.parametrize("number", [1, 2])
        def test_all_are_there(number, muster, catalogue, orders):
            assert muster.topic("own") == f"test{number + 1}-own"
            assert (muster.topic("kept"), muster.topic("test", 1)) == ("kept", "test")
            assert (catalogue, orders, muster.name(orders)) == ("session0-catalogue", "module1-orders", orders)
            topics = {"kept": 3, "test": 1, "session0-catalogue": 2, "module1-orders": 2, f"test{number + 1}-own": 1}
            assert muster.state()["topics"] == topics
            assert muster.name("kept") == "kept"
            assert muster.name("session-store") == f"test{number + 1}-session-store"
            assert muster.group("module1-loader").offsets() == {orders: {0: 7}}
            muster.fault({"error": "NOT_COORDINATOR"})
            muster.clock.freeze()

        def test_what_the_module_has_is_there_for_a_test_that_does_not_ask_for_it(muster):
            assert muster.state()["topics"] == {"kept": 3, "test": 1, "session0-catalogue": 2, "module1-orders": 2}
            assert muster.name("module1-orders") == "module1-orders"

        def test_faults_and_the_clock_were_reset(muster, orders):
            assert muster.group("module1-loader").offsets() == {orders: {0: 7}}
            assert muster.admin.call("GET", "/v1/faults")["faults"] == []
            assert muster.admin.call("GET", "/v1/clock")["mode"] == "real"
    """)
    inner.runpytest_subprocess("-q").assert_outcomes(passed=4)
    inner.makepyfile(
        test_next="""
        def test_nothing_of_the_module_is_left(muster):
            assert set(muster.state()["topics"]) == {"kept", "test", "session0-catalogue"}
    """
    )
    inner.runpytest_subprocess("-q").assert_outcomes(passed=5)
