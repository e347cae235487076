"""A browser understands every declaration of the style sheets: what it does not understand it passes over in silence."""

import json
import re
from importlib.resources import files
from pathlib import Path

from pipeline.report.style import STYLE
from tests.admin.browser import Browser

SHEETS = {"report": STYLE, "page": files("coordinator.admin").joinpath("page/page.css").read_text()}
DECLARATION = re.compile(r"(?<=[{;])\s*([-\w]+)\s*:\s*([^;{}]+?)\s*(?:!important)?(?=[;}])")


def declarations(sheet: str) -> list[tuple[str, str]]:
    """All of them, with the variables put in: of a value that has one in it a browser says nothing."""
    found = DECLARATION.findall(re.sub(r"/\*.*?\*/", "", sheet, flags=re.DOTALL))
    variables = {name: value for name, value in found if name.startswith("--")}
    return [(name, re.sub(r"var\((--[-\w]+)\)", lambda one: variables[one[1]], value)) for name, value in found]


def test_a_browser_understands_every_declaration(tmp_path: Path) -> None:
    with Browser(tmp_path) as browser:
        for sheet in SHEETS.values():
            found = declarations(sheet)
            assert len(found) > 50
            strange = browser.eval(f"{json.dumps(found)}.filter(([name, value]) => !CSS.supports(name, value))")
            assert strange == []
