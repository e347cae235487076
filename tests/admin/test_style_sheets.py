"""The style sheets in a browser: it understands every declaration, and what stays while one scrolls can be read."""

import json
import re
from importlib.resources import files
from pathlib import Path

from pipeline.report.style import STYLE
from tests.admin.browser import Browser

SHEETS = {"report": STYLE, "page": files("coordinator.admin").joinpath("page/page.css").read_text()}
DECLARATION = re.compile(r"(?<=[{;])\s*([-\w]+)\s*:\s*([^;{}]+?)\s*(?:!important)?(?=[;}])")


CELLS = "".join(f"<{{0}}>a_wide_cell_of_column_{n}</{{0}}>" for n in range(12))
ROWS = "".join(f"<tr>{CELLS.format(name)}</tr>" for name in ("th", *["td"] * 60))
SPECIMEN = f"""<main><section id=list><div class=scroll><table>{ROWS}</table></div></section></main>
<p style="height: 200vh"><p id=said>a message"""
"""What the pages have: a table that is longer and wider than its frame, and a message."""
STAYING = """(() => {
  const frame = document.querySelector(".scroll"), shown = frame.getBoundingClientRect(), found = {};
  const all = [...document.querySelectorAll("*")].map(one => [one, getComputedStyle(one)]);
  const staying = all.filter(([, style]) => ["sticky", "fixed"].includes(style.position));
  const middle = one => { const at = one.getBoundingClientRect(); return [at.x + at.width / 2, at.y + at.height / 2]; };
  const isShown = (one, x, y) => !frame.contains(one) ||
    x > shown.left && x < shown.left + frame.clientWidth && y > shown.top && y < shown.top + frame.clientHeight;
  for (const [x, y] of [[300, 0], [0, 300], [300, 300]]) {
    frame.scrollTo(0, 0);
    const before = staying.map(([one]) => middle(one));
    frame.scrollTo(x, y);
    if (frame.scrollLeft !== x || frame.scrollTop !== y) found["not scrolled"] = true;
    staying.forEach(([one, style], n) => {
      const at = middle(one), [, , , alpha = 1] = style.backgroundColor.match(/[\\d.]+/g);
      if (String(at) !== String(before[n]) || !isShown(one, ...at)) return;
      const name = one.id || one.tagName + (one.matches(":first-child") ? " first" : ""), top = document.elementFromPoint(...at);
      found[name] ||= alpha < 1 || style.opacity < 1 ? "shines through" : top !== one ? `is under ${top?.tagName}` : "";
    });
  }
  return found;
})()"""
"""What does not move when the table is scrolled, and what is wrong with it."""


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


def test_what_stays_while_one_scrolls_hides_what_moves(tmp_path: Path) -> None:
    """Headings, and on a narrow screen of the report the first column; a message lies above all."""
    with Browser(tmp_path) as browser:
        for sheet, wide, narrow in (
            (SHEETS["report"], {"TH first", "TH"}, {"TH first", "TH", "TD first"}),
            (SHEETS["page"], {"TH first", "TH", "said"}, {"TH first", "TH", "said"}),
        ):
            browser.eval(f"document.body.innerHTML = {json.dumps(f'<style>{sheet}</style>{SPECIMEN}')}")
            for width, staying in ((1200, wide), (500, narrow)):
                browser.resize(width, 700)
                for scheme in ("light", "dark"):
                    browser.prefer(scheme)
                    assert browser.eval(STAYING) == dict.fromkeys(staying, "")
