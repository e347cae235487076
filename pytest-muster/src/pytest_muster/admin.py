"""HTTP to the admin port, with the standard library alone."""

import json
import os
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

TIMEOUT_S: Final = 30.0  # for a response, beyond what a request itself waits for


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
        """`url`: `http://HOST:PORT`. Raises ValueError for anything else."""
        parts = urlsplit(url)
        if parts.scheme != "http" or not parts.hostname or parts.path.strip("/"):
            raise ValueError(f"invalid address of a Muster server {url!r}: expected http://HOST:PORT")
        self.url = url.rstrip("/")
        self.host = parts.hostname
        self._port = parts.port or 80

    def call(self, method: str, path: str, body: Mapping[str, Any] | None = None, wait_s: float = 0.0) -> Any:
        """Return the JSON that the server answers. Raises MusterError."""
        return json.loads(self.read(method, path, body, wait_s))

    def read(self, method: str, path: str, body: Mapping[str, Any] | None = None, wait_s: float = 0.0) -> bytes:
        """Return the bytes that the server answers; it may take `wait_s` longer than usual. Raises MusterError."""
        connection = HTTPConnection(self.host, self._port, timeout=TIMEOUT_S + wait_s)
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"} if data else {}
        if token := os.environ.get("MUSTER_TOKEN"):
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
            raise MusterError(_sentence(content), response.status)
        return content


def path_of(*names: str, **query: object) -> str:
    """Return `/v1/a/b?c=d` with each name and value quoted; values that are None are left out."""
    given = {name: value for name, value in query.items() if value is not None}
    return "/v1/" + "/".join(quote(name, safe="") for name in names) + (f"?{urlencode(given)}" if given else "")


def _sentence(content: bytes) -> str:
    """Return the sentence of a refusal."""
    try:
        return str(json.loads(content)["error"])
    except (ValueError, KeyError, TypeError):
        return content.decode(errors="replace").strip()
