"""Whatever the admin port serves, with a token it answers nobody without it, but for what is open to all."""

from types import SimpleNamespace
from typing import Any

import pytest

from coordinator.admin import http
from coordinator.admin.access import OPEN
from coordinator.admin.app import Readiness, routes
from coordinator.admin.http import Request, Response
from coordinator.admin.router import Router
from coordinator.cli import admin_port
from coordinator.events import Ring
from coordinator.metrics import Stats
from tests.control.steered import SteeredNode

TOKEN = "a-token-of-some-length"


def make(
    monkeypatch: pytest.MonkeyPatch, *, token: str | None, has_operator: bool, is_read_only: bool, has_issuer: bool
) -> tuple[http.Handler, Router]:
    """Return the handler of an admin port, and the router behind it."""
    server = SteeredNode()
    routers: list[Router] = []

    def keep(*given: Any) -> Router:
        routers.append(routes(*given))
        return routers[-1]

    monkeypatch.setattr("coordinator.cli.admin_port.routes", keep)
    issuer: Any = SimpleNamespace(keys=())
    count: Any = tuple
    handler = admin_port.make_handler(
        readiness=lambda: Readiness(ready=True, loading=0, total=4), stats=Stats(), count=count,
        ring=Ring(), operator=server.operator if has_operator else None, is_read_only=is_read_only, server_port=9092,
        issuer=issuer if has_issuer else None, token=token,
    )  # fmt: skip
    return handler, routers[0]


@pytest.mark.parametrize("has_operator", [True, False])
@pytest.mark.parametrize("is_read_only", [True, False])
@pytest.mark.parametrize("has_issuer", [True, False])
async def test_no_path_is_served_without_the_token(
    monkeypatch: pytest.MonkeyPatch, has_operator: bool, is_read_only: bool, has_issuer: bool
) -> None:
    facts = {"has_operator": has_operator, "is_read_only": is_read_only, "has_issuer": has_issuer}
    handler, router = make(monkeypatch, token=TOKEN, **facts)
    paths = {path for path in router.paths() if path not in OPEN}
    assert {"/metrics", "/events"} <= paths
    assert ("/v1/groups" in paths) == has_operator
    for path in (*paths, "/v1", "/v1/state", "/absent"):
        for method in ("GET", "HEAD", "POST", "DELETE"):
            response = await handler(Request(method, path, headers={"authorization": "Bearer another-token-as-long"}))
            assert isinstance(response, Response)
            assert response.status == 401, (method, path)
    opened, _ = make(monkeypatch, token=None, **facts)
    for given, headers in ((handler, {"authorization": f"Bearer {TOKEN}"}), (opened, {})):
        response = await given(Request("GET", "/readyz", headers=headers))
        assert isinstance(response, Response)
        assert response.status == 200
        response = await given(Request("GET", "/absent", headers=headers))
        assert isinstance(response, Response)
        assert response.status == 404
