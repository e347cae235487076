"""Route each request to its handler by method and path.

A pattern is a path with names in braces, each of which stands for one segment:

    router.add("GET", "/v1/groups/{group}", describe)      # describe(request): request.parameters["group"]

A path is split at its slashes before it is decoded, so that `a%2Fb` is one segment. A path that could be read in two
ways (empty segments, `.` and `..`, however they are written) is refused, not normalized.
"""

import inspect
from collections.abc import Awaitable, Callable
from urllib.parse import unquote

from msgspec.structs import replace

from coordinator.admin.http import Request, Response, Stream, refuse

Handle = Callable[[Request], Response | Awaitable[Response | Stream]]


class Router:
    """The routes of the admin port."""

    def __init__(self) -> None:
        self._routes: dict[tuple[str, ...], dict[str, Handle]] = {}  # by the segments of the pattern, by method
        self._refusals: dict[str, str] = {}  # by the first part of paths that have no handler: the sentence

    def add(self, method: str, pattern: str, handle: Handle) -> None:
        """Add a handler for a method and a pattern of paths. A handler for GET also handles HEAD."""
        methods = self._routes.setdefault(tuple(pattern.split("/")[1:]), {})
        assert method not in methods, f"two handlers for {method} {pattern}"
        methods[method] = handle

    def refuse_below(self, path: str, sentence: str) -> None:
        """Refuse with a sentence what is asked of a path and of those below it, and has no handler."""
        self._refusals[path] = sentence

    def paths(self) -> list[str]:
        """Return the patterns that have a handler, in alphabetical order."""
        return sorted("/" + "/".join(pattern) for pattern in self._routes)

    async def __call__(self, request: Request) -> Response | Stream:
        """Answer a request."""
        segments = _split_path(request.path)
        if segments is None:
            expected = "no empty segments, dots or characters that are not UTF-8"
            return refuse(request.path, f"invalid path: expected {expected}", 400)
        for pattern, methods in self._routes.items():
            parameters = _match(pattern, segments)
            if parameters is None:
                continue
            handle = methods.get("GET" if request.method == "HEAD" else request.method)
            if handle is None:
                allowed = ", ".join(sorted({*methods, *(("HEAD",) if "GET" in methods else ())}))
                return refuse(request.path, f"only {allowed}", 405, (("Allow", allowed),))
            response = handle(replace(request, parameters=parameters))
            return await response if inspect.isawaitable(response) else response
        for path, sentence in self._refusals.items():
            if f"{request.path}/".startswith(f"{path}/"):
                return refuse(request.path, sentence, 403)
        known = " ".join(self.paths())
        return refuse(request.path, f"nothing is at {request.path}; there is {known}", 404)


def _split_path(path: str) -> tuple[str, ...] | None:
    """Split a percent-encoded path, and decode its segments. Return None if it could be read in two ways."""
    if path == "/":
        return ("",)
    try:
        segments = tuple(unquote(segment, errors="strict") for segment in path.split("/")[1:])
    except UnicodeDecodeError:
        return None
    return None if any(segment in ("", ".", "..") or "\0" in segment for segment in segments) else segments


def _match(pattern: tuple[str, ...], segments: tuple[str, ...]) -> dict[str, str] | None:
    """Return the parameters of a path by their names, None if the path does not match the pattern."""
    if len(pattern) != len(segments):
        return None
    parameters: dict[str, str] = {}
    for expected, segment in zip(pattern, segments, strict=True):
        if expected.startswith("{"):
            parameters[expected[1:-1]] = segment
        elif expected != segment:
            return None
    return parameters
