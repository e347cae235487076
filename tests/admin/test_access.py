"""The admin port's token: who is answered with it, and without it."""

import base64
from pathlib import Path

import pytest

from coordinator.admin.access import OPEN, read_token, require_token
from coordinator.admin.http import Request, Response

TOKEN = "a-token-of-some-length"


async def status(path: str, authorization: str | None = None) -> int:
    async def handler(request: Request) -> Response:
        return Response(b"ok")

    headers = {} if authorization is None else {"authorization": authorization}
    response = await require_token(handler, TOKEN)(Request("GET", path, headers=headers))
    assert isinstance(response, Response)
    return response.status


def basic(text: str) -> str:
    return f"Basic {base64.b64encode(text.encode()).decode()}"


@pytest.mark.parametrize("path", ["/", "/v1/groups", "/metrics", "/events", "/healthz/", "/oauth", "/oauth/token/x"])
async def test_without_the_token_nothing_is_answered(path: str) -> None:
    for wrong in (None, "", "Bearer", "Bearer wrong", f"Bearer {TOKEN}x", TOKEN, "Basic !", basic(TOKEN), basic("x:y")):
        assert await status(path, wrong) == 401
    for right in (
        f"Bearer {TOKEN}",
        f"bearer  {TOKEN} ",
        basic(f"me:{TOKEN}"),
        basic(f":{TOKEN}"),
        basic(f":{TOKEN}").replace("B", "b", 1),
    ):
        assert await status(path, right) == 200


@pytest.mark.parametrize("path", OPEN)
async def test_health_checks_need_none(path: str) -> None:
    assert await status(path) == 200


def test_a_token_is_not_easily_guessed(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    assert read_token(str(file)) == TOKEN
    for text in ("", "short", "with a space in the middle", "ünïcödé-ünïcödé-ünïcödé"):
        file.write_text(text)
        with pytest.raises(ValueError, match="expected 16 printable"):
            read_token(str(file))
