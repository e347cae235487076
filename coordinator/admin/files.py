"""The page at `/`: files of this package, sent as they are. They ask no other server for anything."""

from collections.abc import Callable
from importlib.resources import files
from typing import Final

from coordinator.admin.http import Request, Response
from coordinator.admin.router import Router

MEDIA_TYPES: Final = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
HEADERS: Final = (
    (
        "Content-Security-Policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    ("Referrer-Policy", "no-referrer"),
)


def add_page(router: Router, *, is_read_only: bool = False) -> None:
    """Serve the page at `/` and its files under `/page`. A read-only page has no buttons."""
    folder = files(__package__) / "page"
    names = sorted(one.name for one in folder.iterdir() if one.name.rpartition(".")[2] in MEDIA_TYPES)

    def read(name: str) -> Callable[[Request], Response]:
        media_type = f"{MEDIA_TYPES[name.rpartition('.')[2]]}; charset=utf-8"
        old, new = (b"<body>", b'<body class="read-only">') if is_read_only else (b"", b"")

        def respond(_: Request) -> Response:
            content = (folder / name).read_bytes()
            return Response(content.replace(old, new, 1), content_type=media_type, headers=HEADERS)

        return respond

    for name in names:
        router.add("GET", "/" if name == "index.html" else f"/page/{name}", read(name))
