"""Write the parts of the documentation that are read off the code.

    python -m docs.generate            write them
    python -m docs.generate --check    write nothing; name those that are stale, and exit with 1 if there are any

A whole page is a function in PAGES. A part of a page that is otherwise written by hand is a function in BLOCKS, and
stands there between `<!-- name: ... -->` and `<!-- /name -->`, each on a line of its own. A test compares what is
committed.
"""

import argparse
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from coordinator.runtime import router
from docs import authorization_page, protocol_page, settings_page
from protocol.apis import LATEST_RANGES

ROOT = Path(__file__).parent.parent

PAGES: Mapping[str, Callable[[], str]] = {
    "docs/protocol.md": protocol_page.page,
    "docs/settings.md": settings_page.page,
}
BLOCKS: Mapping[tuple[str, str], Callable[[], str]] = {
    ("docs/authorization.md", "needs"): authorization_page.needs_table,
    ("docs/apis.md", "apis"): lambda: protocol_page.apis_table(router.intersect_versions(LATEST_RANGES)),
}


def fresh(path: str) -> str:
    """What a page should say now. A block without its markers raises `ValueError`."""
    if path in PAGES:
        return PAGES[path]()
    text = (ROOT / path).read_text(encoding="utf-8")
    for (page, name), block in BLOCKS.items():
        if page == path:
            text = with_block(text, name, block())
    return text


def with_block(text: str, name: str, block: str) -> str:
    """The text with what stands between the markers of `name` replaced."""
    markers = re.compile(rf"(<!-- {re.escape(name)}\b[^\n]*-->\n).*?(<!-- /{re.escape(name)} -->)", re.DOTALL)
    replaced, count = markers.subn(lambda match: match[1] + block.strip("\n") + "\n" + match[2], text)
    if count != 1:
        raise ValueError(f"{count} places for {name!r}, where one is wanted")
    return replaced


def paths() -> list[str]:
    """The pages that are generated, wholly or in parts."""
    return sorted({*PAGES, *(page for page, _ in BLOCKS)})


def is_stale(path: str) -> bool:
    file = ROOT / path
    return not file.exists() or file.read_text(encoding="utf-8") != fresh(path)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m docs.generate", description="Write what is read off the code.")
    parser.add_argument("--check", action="store_true", help="write nothing, name what is stale")
    options = parser.parse_args()
    stale = [path for path in paths() if is_stale(path)]
    for path in stale:
        print(path)
        if not options.check:
            (ROOT / path).write_text(fresh(path), encoding="utf-8")
    return 1 if stale and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
