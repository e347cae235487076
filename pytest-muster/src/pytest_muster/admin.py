"""HTTP to the admin port, with the standard library alone."""

import json
import os
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

Json = dict[str, Any]
TOKEN_VARIABLE: Final = "MUSTER_TOKEN"  # noqa: S105  # its name
TIMEOUT_S: Final = 30.0  # for a response, beyond what a request itself waits for
PORT: Final = 8092  # where an address has none, as for the commands
__tracebackhide__ = True  # pytest shows the line of the test that made the call, and the sentence


class MusterError(Exception):
    """The server has refused a request, or cannot be reached. The text says why."""

    def __init__(self, sentence: str, status: int = 0) -> None:
        super().__init__(sentence)
        self.status = status


class ExpectationError(MusterError, AssertionError):
    """What a test expects has not happened: a failure of the test, and not an error in it."""


class Admin:
    """The admin port of a server. Each call is a connection of its own, so that none is sent twice."""

    def __init__(self, url: str) -> None:
        """`url` is `http://HOST:PORT`, or `HOST:PORT`. Raises ValueError for anything else."""
        url = url if "://" in url else f"http://{url}"
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port or PORT
        except ValueError:  # the port is none
            host, port = None, PORT
        if host is None or parts.scheme != "http" or parts.path.strip("/"):
            raise ValueError(f"invalid address of a Muster server {url!r}: expected HOST:PORT or http://HOST:PORT")
        self._host, self._port = host, port
        self.host = f"[{host}]" if ":" in host else host
        """As it is written before a port: an IPv6 address in brackets."""
        self.url = f"http://{self.host}:{port}"

    def call(self, method: str, path: str, body: Mapping[str, Any] | None = None, wait_s: float = 0.0) -> Json:
        """Return the JSON object that the server responds with. Raises MusterError."""
        content = self.read(method, path, body, wait_s)
        try:
            found: Json = json.loads(content)
        except ValueError:
            raise MusterError(f"{self.url} is not the admin port of a Muster") from None
        return found

    def read_list(self, path: str, name: str) -> list[Json]:
        """Return the list of that name in the JSON object at a path. Raises MusterError."""
        found: list[Json] = self.call("GET", path)[name]
        return found

    def read(self, method: str, path: str, body: Mapping[str, Any] | None = None, wait_s: float = 0.0) -> bytes:
        """Return the bytes that the server responds with; it may take `wait_s` longer. Raises MusterError."""
        connection = HTTPConnection(self._host, self._port, timeout=TIMEOUT_S + wait_s)
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"} if data else {}
        if token := _read_token():
            headers["Authorization"] = f"Bearer {token}"
        try:
            connection.request(method, path, data, headers)
            response = connection.getresponse()
            content = response.read()
        except (OSError, HTTPException) as error:
            raise MusterError(f"no answer from {self.url} to {method} {path}: {error!r}") from None
        finally:
            connection.close()
        if response.status >= 400:
            raise MusterError(_read_sentence(content), response.status)
        return content


def path_of(*names: str, **query: object) -> str:
    """Return `/v1/a/b?c=d` with each name and value quoted; values that are None are left out."""
    given = {name: value for name, value in query.items() if value is not None}
    return "/v1/" + "/".join(quote(name, safe="") for name in names) + (f"?{urlencode(given)}" if given else "")


def _read_token() -> str:
    """Return the token of the environment, "" without one. Raises MusterError for one that no header can carry."""
    token = os.environ.get(TOKEN_VARIABLE, "").strip()
    if not token.isascii() or not token.isprintable():
        raise MusterError(f"invalid {TOKEN_VARIABLE}: expected printable ASCII characters")
    return token


def _read_sentence(content: bytes) -> str:
    """Return the sentence of a refusal."""
    try:
        return str(json.loads(content)["error"])
    except (ValueError, KeyError, TypeError):
        return content.decode(errors="replace").strip()
