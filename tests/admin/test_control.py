"""The control API over HTTP: what it refuses, and that a refusal changes nothing."""

import json
import re
import socket
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any, cast

import pytest
import trio

from coordinator.admin.control import control_operations
from coordinator.admin.http import Request, Response
from coordinator.admin.operations import add_operations
from coordinator.admin.router import Router
from coordinator.cli import main
from coordinator.client import Client
from coordinator.events import Ring
from protocol.messages.metadata import MetadataRequest
from tests.cli.command import classic_member
from tests.live import Muster, server_fixture

if TYPE_CHECKING:
    from coordinator.server.operator import Operator

muster = server_fixture("--ephemeral", "--topic", "orders:4")


def call(muster: Muster, method: str, path: str, body: object = None, **headers: str) -> tuple[int, Any]:
    """The status and the decoded answer."""
    data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(f"{muster.ready['admin']}/v1{path}", data, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        text = error.read()
        return error.code, json.loads(text) if text.startswith(b"{") else text.decode()


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "sentence"),
    [
        ("POST", "/clock/advance", b"{", 400, "invalid body: Input data was truncated"),
        ("POST", "/clock/advance", {}, 400, "invalid body: Object missing required field `ms`"),
        ("POST", "/clock/advance", {"ms": "1"}, 400, "invalid body: Expected `int`, got `str` - at `$.ms`"),
        ("POST", "/clock/advance", {"ms": -1}, 400, "invalid ms -1: expected 0 to 315360000000"),
        (
            "POST",
            "/clock/advance",
            {"ms": 1, "keep_alive": "some"},
            400,
            "invalid body: Invalid enum value 'some' - at `$.keep_alive`; expected one of all, connected, none",
        ),
        ("POST", "/clock/advance", {"ms": 1, "mss": 1}, 400, "unknown field `mss`; expected one of ms, keep_alive"),
        (
            "POST",
            "/scenarios",
            {"steps": [{"do": {"drop": "all"}}]},
            400,
            "'all' - at `$.steps[0].do.drop`; expected one of nothing, request, response",
        ),
        ("POST", "/scenarios", {"steps": [{"does": {}}]}, 400, "at `$.steps[0]`; expected one of on, do, after, verb"),
        ("GET", "/requests?format=xml", None, 400, "at `$.format`; expected one of json, jsonl, pcapng"),
        ("GET", "/requests?api=Fetsch", None, 400, "invalid api 'Fetsch': expected Kafka's name of an API"),
        ("POST", "/clock/advance", {"ms": 1, "unknown": 1}, 400, "Object contains unknown field `unknown`"),
        ("PUT", "/clock", {"mode": "rate"}, 400, "invalid rate: expected a rate with mode rate"),
        ("PUT", "/clock", {"mode": "rate", "rate": -1}, 400, "invalid rate -1.0: expected more than 0"),
        ("PUT", "/clock", {"mode": "frozen", "rate": 2}, 400, "invalid rate: expected a rate with mode rate"),
        ("GET", "/clock?limit=x", None, 400, "invalid query: Expected `int`, got `str` - at `$.limit`"),
        ("GET", "/clock?limit=1&limit=2", None, 400, "invalid query: a name is given twice"),
        ("GET", "/groups?nothing=1", None, 400, "invalid query: Object contains unknown field `nothing`"),
        ("GET", "/groups/none", None, 404, "there is no group 'none'"),
        ("POST", "/groups/none/rebalance", None, 404, "there is no group 'none'"),
        ("POST", "/groups/none/members/a/expire", None, 404, "there is no group 'none'"),
        ("POST", "/groups/g/hold", {"at": "lunch"}, 400, "Invalid enum value 'lunch'"),
        ("POST", "/faults", {"do": {}}, 400, "invalid do: expected one of error"),
        ("POST", "/faults", {}, 400, "invalid body: Object missing required field `do`"),
        ("POST", "/faults", {"do": {"eror": "X"}}, 400, "unknown field `eror`"),
        ("POST", "/faults", {"do": {"drop": "both"}}, 400, "Invalid enum value 'both'"),
        ("DELETE", "/faults/7", None, 404, "there is no fault 7"),
        ("GET", "/faults/seven", None, 400, "invalid number 'seven': expected that of a fault"),
        ("POST", "/scenarios", {"steps": []}, 400, "invalid steps: expected 1 to 1000 of them"),
        ("POST", "/scenarios", {"steps": [{}]}, 400, "invalid step 1: expected either on and do, or after and verb"),
        ("GET", "/scenarios/1", None, 404, "there is no scenario 1"),
        ("GET", "/requests", None, 409, "the journal is off"),
        ("PUT", "/journal", {"bytes_max": -1}, 400, "invalid bytes_max -1"),
        ("POST", "/state", {"topics": {"a b": 1}}, 400, "topic 'a b': "),
        ("POST", "/state", {"topics": {"new": 1, "orders": 5}}, 409, "topic 'orders' has 4 partitions, and not 5"),
        ("POST", "/snapshots/none/restore", None, 404, "there is no snapshot 'none'"),
        ("POST", "/wait", {}, 400, "invalid wait: expected a group or a fault"),
        ("POST", "/wait", {"fault": 1, "members": 1}, 400, "invalid wait: expected a group with members"),
        (
            "POST",
            "/wait",
            {"group": "g", "state": "Stabel"},
            400,
            "invalid state 'Stabel': expected one of Empty, PreparingRebalance, CompletingRebalance, Stable, "
            "Assigning, Reconciling",
        ),
        (
            "POST",
            "/wait",
            {"group": "g", "members": {"gte": 2, "lte": 1}},
            400,
            "expected lte to be gte (2) or more, got 1 - at `$.members`",
        ),
        (
            "POST",
            "/wait",
            {"group": "g", "records": {"t": {"0": {"9" * 5_000: "available"}}}},
            400,
            "invalid offset",
        ),
        ("POST", "/wait", {"group": "g", "records": {"t": {"-1": {"0": "new"}}}}, 400, "invalid partition '-1' of t"),
        ("POST", "/wait", {"group": "g", "timeout_ms": 10}, 408, "not within 10 ms: there is no group 'g'"),
        ("POST", "/wait", {"group": "g", "timeout_ms": 10**9}, 400, "invalid timeout_ms 1000000000"),
        ("POST", "/verify", {"expect": [{"api": "JoinGroup"}]}, 409, "the journal is off"),
        ("POST", "/verify", {"expect": [{"event": "session_expired"}, {"api": ""}]}, 409, "the journal is off"),
        (
            "POST",
            "/verify",
            {"expect": [{"event": "session_expired"}]},
            409,
            "event session_expired: expected at least 1, found 0",
        ),
        ("POST", "/verify", {"expect": [{"api": "JoinGrup"}]}, 400, "invalid expect[0].api 'JoinGrup': expected"),
        ("POST", "/verify", {"expect": [{"api": "JoinGroup"}] * 1_001}, 400, "invalid expect: expected 1000 of them"),
        ("POST", "/reset", {"keep": ["a"] * 1_001}, 400, "invalid number of prefixes to keep 1001: expected 0 to 1000"),
        *[
            ("POST", "/wait", {"group": "g", **wanted}, 400, "invalid number of names 10001: expected 0 to 10000")
            for wanted in (
                {"assigned": {"m": {"t": [0] * 10_000}}},
                {"tasks": {f"m{number}": {} for number in range(20_000)}},
                {"offsets": {"t": {str(number): 1 for number in range(10_000)}}},
                {"records": {"t": {str(number): {"1": "done"} for number in range(6_000)}}},
            )
        ],
        ("PATCH", "/clock", None, 405, "only GET, HEAD, PUT"),
        ("GET", "/nowhere", None, 404, "nothing is at /v1/nowhere"),
        ("GET", "/groups//timeline", None, 400, "invalid path: expected no empty segments"),
    ],
)
def test_nonsense_is_refused_with_a_sentence(
    muster: Muster, method: str, path: str, body: object, status: int, sentence: str
) -> None:
    got, answer = call(muster, method, path, body)
    assert got == status, answer
    assert sentence in answer["error"]
    assert call(muster, "GET", "/state") == (200, {"topics": {"orders": 4}, "offsets": {}})
    assert call(muster, "GET", "/faults") == (200, {"faults": []})


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "[::1].evil.example"},
        {"Host": "[::1]evil"},
        {"Host": "[::1]:80.evil.example"},
        {"Origin": "http://evil.example"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"},
    ],
)
def test_other_sites_cannot_steer(muster: Muster, headers: dict[str, str]) -> None:
    status, answer = call(muster, "POST", "/reset", {}, **headers)
    assert (status, answer["error"].partition(" ")[0]) == (403, "invalid")


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "[::1]:8092"},
        {"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors", "Sec-Fetch-Dest": "empty"},
        {"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"},
    ],
)
def test_our_page_and_its_visitors_are_answered(muster: Muster, headers: dict[str, str]) -> None:
    """Also one that follows a link of another site."""
    assert call(muster, "GET", "/faults", **headers)[0] == 200


def test_a_wait_ends_when_what_it_waits_for_holds(muster: Muster) -> None:
    call(muster, "POST", "/state", {"offsets": {"seeded": {"orders": {"0": 5}}}})
    wanted = {"group": "seeded", "state": "Empty", "members": 0, "offsets": {"orders": {"0": {"gte": 5}}}}
    status, view = call(muster, "POST", "/wait", wanted)
    assert (status, view["offsets"]) == (200, {"orders": {"0": 5}})
    for wrong, missing in (
        ({"state": "Stable"}, "the state is Empty, expected Stable"),
        ({"members": {"gte": 1}}, "members: 0, expected at least 1"),
        ({"offsets": {"orders": {"0": 6}}}, "the offset of orders-0 is 5, expected 6"),
        ({"assigned": {"a": {"orders": [0]}}}, "a owns None, expected {'orders': [0]}"),
        ({"exists": False}, "there is a group 'seeded'"),
    ):
        status, answer = call(muster, "POST", "/wait", {"group": "seeded", "timeout_ms": 1} | wrong)
        assert (status, missing in answer["error"]) == (408, True), answer
    fault = call(muster, "POST", "/faults", {"do": {"hold": True}, "on": {"group": "seeded"}})[1]["number"]
    status, answer = call(muster, "POST", "/wait", {"fault": fault, "timeout_ms": 1})
    assert (status, "has met 0 requests, expected 1" in answer["error"]) == (408, True), answer
    assert call(muster, "POST", "/reset", {"prefix": "seeded"}) == (200, {"groups": 1, "topics": 0})


def test_what_a_full_journal_has_dropped_may_have_happened(tmp_path: Any) -> None:
    with Muster(tmp_path, "--ephemeral", "--set", "journal.max.bytes=1000") as server:
        with Client.to(server.kafka) as client:
            for _ in range(8):
                client.ask(MetadataRequest())
        never = {"expect": [{"api": "Metadata", "group": "g", "times": 0}]}
        status, answer = call(server, "POST", "/verify", never)
        assert (status, "but requests are gone" in answer["error"]) == (409, True), answer
        latest = call(server, "GET", "/journal")[1]["latest"]
        assert call(server, "POST", "/verify", never | {"after": latest - 1})[0] == 200
        assert call(server, "POST", "/reset", {})[0] == 200
        assert call(server, "POST", "/verify", never)[0] == 200


def test_what_happened_before_a_reset_or_a_restore_is_not_counted(tmp_path: Any) -> None:
    never = {"expect": [{"event": "group_forgotten", "group": "verified", "times": 0}]}
    with Muster(tmp_path, "--ephemeral", "--topic", "orders:4", "--set", "journal.max.bytes=100000") as server:
        assert call(server, "PUT", "/snapshots/kept")[0] == 200
        for path, body in (("/snapshots/kept/restore", None), ("/reset", {"prefix": "verif"}), ("/reset", {})):
            assert call(server, "POST", "/verify", never)[0] == 200, path
            call(server, "POST", "/state", {"offsets": {"verified": {"orders": {"0": 5}}}})
            assert call(server, "DELETE", "/groups/verified")[0] == 200
            assert call(server, "POST", "/verify", never)[0] == 409
            assert call(server, "POST", path, body)[0] == 200
        assert call(server, "POST", "/verify", never)[0] == 200


def test_a_large_state_is_made_and_removed(muster: Muster) -> None:
    """More topics, partitions and offsets than are decided in one step."""
    topics = {f"large-{number}": 1 for number in range(450)} | {"large-wide": 2_500}
    offsets = {"large-g": {"large-wide": {str(index): index for index in range(2_500)}, "large-7": {"0": 3}}}
    status, state = call(muster, "POST", "/state", {"topics": topics, "offsets": offsets})
    assert (status, state) == (200, {"topics": {"orders": 4} | topics, "offsets": offsets})
    for _ in range(2):  # at once again: nothing of the first one is left to be removed
        assert call(muster, "POST", "/reset", {"prefix": "large-"}) == (200, {"groups": 1, "topics": 451})
        assert call(muster, "GET", "/state")[1] == {"topics": {"orders": 4}, "offsets": {}}
        assert call(muster, "POST", "/state", {"topics": topics, "offsets": offsets})[0] == 200
    assert call(muster, "POST", "/reset", {"prefix": "large-"})[0] == 200


def test_a_slow_caller_hinders_nobody(muster: Muster) -> None:
    """Half a request on the admin port, and another caller is answered."""
    host, _, port = str(muster.ready["admin"]).removeprefix("http://").rpartition(":")
    with socket.create_connection((host, int(port)), timeout=10) as slow:
        slow.sendall(b"POST /v1/reset HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
        assert call(muster, "GET", "/clock")[0] == 200


def test_the_api_can_be_switched_off(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with Muster(tmp_path, "--ephemeral", "--set", "admin.control=false") as server:
        with pytest.raises(urllib.error.HTTPError) as refused:
            server.get("/v1/clock")
        assert refused.value.code == 403
        assert "admin.control=read" in refused.value.read().decode()
        assert json.loads(server.get("/readyz"))["ready"]
        assert main(["why", "shop", "--admin", server.ready["admin"]]) == 1
        assert "403 the control API is switched off: admin.control=read shows groups" in capsys.readouterr().err


def test_the_api_can_be_to_look_at_alone(tmp_path: Any) -> None:
    with Muster(tmp_path, "--ephemeral", "--topic", "orders:1", "--set", "admin.control=read") as server:
        assert call(server, "GET", "/state")[1]["topics"] == {"orders": 1}
        assert call(server, "POST", "/wait", {"group": "g", "exists": False})[0] == 200
        status, refusal = call(server, "POST", "/reset", {})
        assert (status, refusal["error"].partition(":")[0]) == (403, "this server is not to be changed")
        assert call(server, "PUT", "/clock", {"mode": "frozen"})[0] == 403
        assert call(server, "GET", "/clock")[1]["mode"] == "real"
        assert '<body class="read-only">' in server.get("/")
        described = json.loads(server.get("/v1/openapi.json"))["paths"]
        looks = {path for path, methods in described.items() for method in methods if method == "get"}
        assert "/v1/groups/{group}/timeline" in looks


def test_whatever_changes_something_is_refused_to_who_may_only_look() -> None:
    operations = control_operations(cast("Operator", None), Ring(), 0)
    assert {one.path for one in operations if one.method != "GET" and one.changes_nothing} == {"/v1/wait", "/v1/verify"}
    router = Router()
    add_operations(router, operations, "only to look at")
    for one in operations:
        if not one.changes_nothing:
            answer = cast("Response", trio.run(router, Request(one.method, re.sub(r"{\w+}", "1", one.path), "")))
            assert answer.status == 403, f"{one.method} {one.path}"


def test_a_body_may_be_toml(muster: Muster) -> None:
    """A file that a person writes: the same scenario as in JSON, and the same refusals."""
    toml = {"Content-Type": "application/toml; charset=utf-8"}
    for body, sentence in ((b"\xff", "expected UTF-8"), (b"a = " + b"[" * 3_000, "it is nested too deeply")):
        assert call(muster, "POST", "/scenarios", body, **toml) == (400, {"error": f"invalid body: {sentence}"})
    steps = b'[[steps]]\non = { api = "OffsetCommit", group = "g" }\ndo = { error = "NOT_COORDINATOR" }\n'
    status, scenario = call(muster, "POST", "/scenarios", b'name = "lost"\n' + steps, **toml)
    assert (status, scenario["name"], scenario["steps"], scenario["reached"]) == (200, "lost", 1, 0)
    assert call(muster, "DELETE", f"/scenarios/{scenario['number']}")[0] == 200
    status, refusal = call(muster, "POST", "/scenarios", b"[[steps]]\non = 5\n", **toml)
    assert (status, refusal["error"]) == (400, "invalid body: Expected `object | null`, got `int` - at `$.steps[0].on`")
    status, refusal = call(muster, "POST", "/scenarios", b"steps = [", **toml)
    assert status == 400 and refusal["error"].startswith("invalid body: ")
    assert call(muster, "POST", "/scenarios", b"steps = []", **{"Content-Type": "text/plain"})[0] == 400, (
        "JSON by default"
    )


def test_timelines_are_of_the_groups_of_a_prefix_since_the_last_reset_of_each(muster: Muster) -> None:
    def headings(query: str = "") -> list[str]:
        lines = muster.get(f"/v1/timelines{query}").splitlines()
        return [line.removeprefix("muster: the timeline of group ") for line in lines if line.startswith("muster: ")]

    call(muster, "POST", "/reset", {})
    assert headings() == []
    with Client.to(muster.kafka, client_id="till") as client:
        for group in ("a-1", "b-1", "b-2"):
            classic_member(client, group, {"orders": (0,)})
    assert headings() == ["a-1", "b-1", "b-2"]
    assert headings("?prefix=b-") == ["b-1", "b-2"]
    assert call(muster, "POST", "/reset", {"prefix": "b-1"})[0] == 200
    assert headings() == ["a-1", "b-2"]
    assert 'member joined: "till"' in muster.get("/v1/timelines?prefix=b-2")
