"""The page in a headless Chromium: what it shows as it happens, what it does, and what it makes of hostile names."""

import json
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from coordinator.client import Client
from protocol import record_batch
from protocol.records import Record
from tests.admin.browser import Browser, need_browser
from tests.cli.command import consumer_member
from tests.live import Muster
from tests.members import PART, TOPOLOGY, ConsumerMember, StreamsMember
from tests.requests import produce
from tests.share_consumer import ShareConsumer

pytestmark = pytest.mark.long  # each test starts a browser

HOSTILE = (
    "<script>document.title = 'taken'</script>",
    '"><img src=x onerror="document.title=\'taken\'">',
    "abc\u202edcba",  # turns the rest of the line around
    "line\nbreak\x00\x1b[31m",
    "javascript:alert(1)",
    "x" * 3_000,
    "größer 😀 日本語",
    "a/b?c#d%2F&e=f",
    "__proto__",
)


@pytest.fixture
def muster(tmp_path: Path) -> Iterator[Muster]:
    need_browser()
    with Muster(tmp_path, "--ephemeral", "--no-fast", "--topic", "orders:4") as server:
        yield server


@pytest.fixture
def browser(muster: Muster, tmp_path: Path) -> Iterator[Browser]:
    with Browser(tmp_path) as one:
        yield one
        assert not one.errors
        elsewhere = [address for address in one.requested if not address.startswith((muster.ready["admin"], "data:"))]
        assert elsewhere == [], "the page asks nobody else"


def show(browser: Browser, muster: Muster, group: str = "") -> None:
    browser.open(f"{muster.ready['admin']}/" + (f"#group={urllib.parse.quote(group, safe='')}" if group else ""))
    browser.wait("document.querySelector('#link').dataset.state == 'live' && clock")


def seed(muster: Muster, *groups: str) -> None:
    muster.steer("POST", "/state", topics={"orders": 4}, offsets={group: {"orders": {"0": 0}} for group in groups})


STATE = "document.querySelector('#facts .chip')?.textContent"
OWNED = "[...document.querySelectorAll('#members tr')].map((row) => [...row.cells].slice(0, 2).map((one) => one.innerText.trim()).join(' '))"


def test_a_rebalance_shows_as_it_happens(browser: Browser, muster: Muster) -> None:
    show(browser, muster, "live")
    browser.wait("document.querySelector('#facts').textContent == 'There is no such group now.'")
    with Client.to(muster.kafka, client_id="anna") as anna, Client.to(muster.kafka, client_id="bert") as bert:
        first, second = ConsumerMember(anna, "anna", "live"), ConsumerMember(bert, "bert", "live")
        first.own()
        first.own()
        browser.wait(f"{STATE} == 'Stable' && {OWNED}.join() == 'anna orders: 0-3'")
        second.own()
        browser.wait(f"{STATE} == 'Assigning' && {OWNED}.length == 2")
        muster.steer("POST", "/clock/advance", ms=1_000, keep_alive="all")  # the least time between two assignments
        second.own()
        browser.wait(f"{STATE} == 'Reconciling'")
        browser.wait("document.querySelector('#groups tr .chip').textContent == 'Reconciling'")
        first.own()  # is told to give up two
        first.own()  # has done so
        second.own()
        second.own()
        browser.wait(f"{STATE} == 'Stable' && {OWNED}.filter((one) => one.includes('orders')).length == 2")
    causes = browser.eval("[...document.querySelectorAll('#events li')].map((one) => one.dataset.cause)")
    assert {"member_joined", "revocation_awaited", "partitions_revoked"} <= set(causes)
    numbers = browser.eval("[...document.querySelectorAll('#events li')].map((one) => Number(one.dataset.number))")
    assert numbers == sorted(set(numbers), reverse=True), "each event is there once, the latest first"
    assert "(epoch 3)" in browser.text("#events") and "generation" not in browser.text("#events")


def test_nothing_is_claimed_of_a_group_before_the_server_has_said_anything(browser: Browser, muster: Muster) -> None:
    """Neither at the start nor when another group is opened; here the server is one that does not answer."""
    told = "[document.querySelector('#facts').textContent, document.querySelector('#no-events').hidden].join()"
    seed(muster, "shop")
    show(browser, muster, "nobody")
    browser.wait(f"{told} == 'There is no such group now.,false'")
    browser.eval("window.EventSource = class { close() {} }; location.hash = 'group=shop'")
    browser.wait("document.querySelector('#group-title').textContent == 'shop'")
    assert browser.eval(told) == "Loading …,true"


def test_the_clock_is_moved_and_a_member_expires(browser: Browser, muster: Muster) -> None:
    with Client.to(muster.kafka) as client:
        consumer_member(client, "live", "m-1")
        show(browser, muster, "live")
        browser.wait(f"{STATE} == 'Stable'")
        before = browser.eval("clock.now_ms")
        browser.eval(
            "document.querySelector('#seconds').value = '100'; document.querySelector('#keep-alive').value = 'none'"
        )
        browser.click("#advance button")
        browser.wait(f"clock.now_ms - {before} >= 100000 && {STATE} == 'Empty'")
        assert "timers fired" in browser.text("#said")
        browser.wait("document.querySelector('#events li[data-cause=session_expired]')")
        browser.press("f")
        browser.wait("document.querySelector('#mode').textContent == 'frozen'")
        shown = browser.text("#time")
        assert muster.steer("GET", "/clock")["mode"] == "frozen"
        browser.press("f")
        browser.wait("document.querySelector('#mode').textContent == 'runs'")
        browser.wait(f"document.querySelector('#time').textContent != {json.dumps(shown)}")


def test_records_of_a_share_group_are_shown_and_expire_by_a_button(browser: Browser, muster: Muster) -> None:
    rows = "[...document.querySelectorAll('#records tr')].map((row) => [...row.cells].slice(0, 4).map((one) => one.innerText.trim()).join(' ').trim())"
    with Client.to(muster.kafka, client_id="anna") as anna:
        consumer = ShareConsumer.join(anna, "mail", "orders")
        consumer.fetch()
        show(browser, muster, "mail")
        browser.wait(f"!document.querySelector('#in-flight').hidden && {rows}.join() == 'nothing'")
        anna.ask(produce("orders", {0: record_batch.encode([Record(None, b"letter")] * 3)}), 12)
        assert consumer.fetch(5_000) == [(0, 2, 1)]
        browser.wait(f"{rows}.join() == 'orders:0 0-2 acquired 1 anna'")
        browser.wait("/^[0-9.]+ s$/.test(document.querySelector('#records [data-until]').textContent)")
        browser.click("#records button")
        browser.wait(f"{rows}.join() == 'orders:0 0-2 available 1'")
        browser.wait("document.querySelector('#events li[data-cause=lock_expired]')")


def test_tasks_of_a_streams_group_are_shown_and_why_one_is_not_ready(browser: Browser, muster: Muster) -> None:
    steps = "[...document.querySelectorAll('#hold-at option')].map((one) => one.value).join()"
    muster.steer("POST", "/state", topics={"lines": 2})
    with Client.to(muster.kafka, client_id="anna") as anna:
        member, other = StreamsMember(anna, "anna", "words"), StreamsMember(anna, "anna", "lost")
        for _ in range(3):  # its topics are created, and it is assigned tasks
            member.beat()
        other.topology = replace(TOPOLOGY, subtopologies=(PART("0", ("nowhere",)),))
        other.beat()
        show(browser, muster, "words")
        browser.wait(f"{steps} == 'assignment,commit'")
        browser.wait("document.querySelector('#members').innerText.includes('process anna')")
        browser.wait("document.querySelector('#problem').textContent == ''")
        show(browser, muster, "lost")
        browser.wait(f"{STATE} == 'NotReady'")
        browser.wait("document.querySelector('#problem').textContent == 'missing source topics: nowhere'")


def test_a_member_is_expired_and_a_group_held_by_buttons(browser: Browser, muster: Muster) -> None:
    with Client.to(muster.kafka) as client:
        consumer_member(client, "live", "m-1")
        show(browser, muster, "live")
        browser.wait("document.querySelectorAll('#members button').length == 3")
        browser.click("[data-do=hold]")
        browser.wait("document.querySelector('#fault-list').innerText.includes('api ConsumerGroupHeartbeat')")
        held = browser.eval("document.querySelectorAll('#fault-list li').length")
        browser.click("#fault-list button")
        browser.wait(f"document.querySelectorAll('#fault-list li').length == {held - 1}")
        browser.click("[data-do=release]")
        browser.wait("document.querySelectorAll('#fault-list li').length == 0")
        browser.click("#fault button")
        browser.wait(
            "document.querySelector('#fault-list').innerText.includes('error COORDINATOR_NOT_AVAILABLE (0 of 1)')"
        )
        assert muster.steer("GET", "/faults")["faults"][0]["on"]["group"] == "live"
        browser.click("#members button")
        browser.wait(f"{STATE} == 'Empty'")
        browser.eval("document.querySelector('#fault-value').value = 'NOPE'")
        browser.click("#fault button")
        browser.wait("document.querySelector('#said').dataset.kind == 'bad'")
        assert "invalid do.error 'NOPE'" in browser.text("#said")
    browser.errors = [one for one in browser.errors if "400" not in one]  # Chromium reports the refusal


def test_a_reset_is_survived(browser: Browser, muster: Muster) -> None:
    seed(muster, "shop", "bakery")
    show(browser, muster, "shop")
    browser.wait("document.querySelectorAll('#groups tr').length == 2")
    browser.click("#reset-open")
    browser.click("#reset button[autofocus]")
    assert muster.steer("GET", "/groups")["groups"], "nothing is removed without a yes"
    browser.click("#reset-open")
    browser.click("#reset button[value=reset]")
    browser.wait("document.querySelectorAll('#groups tr').length == 0 && !document.querySelector('#no-groups').hidden")
    browser.wait("document.querySelector('#facts').textContent == 'There is no such group now.'")
    assert not muster.steer("GET", "/groups")["groups"]
    seed(muster, "shop")
    browser.wait(f"document.querySelectorAll('#groups tr').length == 1 && {STATE} == 'Empty'")


def test_a_restart_of_the_server_is_survived(browser: Browser, muster: Muster) -> None:
    seed(muster, "before")
    show(browser, muster)
    browser.wait("document.querySelector('#groups').innerText.includes('before')")
    muster.stop()
    browser.wait("document.querySelector('#link').dataset.state == 'wait'")
    muster.start()
    seed(muster, "after")
    browser.wait("document.querySelector('#groups').innerText.includes('after')")
    assert "before" not in browser.text("#groups")
    browser.errors = [one for one in browser.errors if "ERR_" not in one]


def test_a_thousand_groups(browser: Browser, muster: Muster) -> None:
    seed(muster, *(f"group-{number:04}" for number in range(1_005)))
    show(browser, muster)
    browser.wait("document.querySelectorAll('#groups tr').length == 1000")
    assert "1,000 of 1,005" in browser.text("#count")
    browser.eval(
        "document.querySelector('#search').value = 'group-1'; document.querySelector('#search').dispatchEvent(new Event('input'))"
    )
    browser.wait(
        "document.querySelectorAll('#groups tr').length == 5 && document.querySelector('#count').textContent == '5'"
    )
    seed(muster, "group-1999")
    browser.wait("document.querySelectorAll('#groups tr').length == 6")


def test_hostile_names_are_text(browser: Browser, muster: Muster) -> None:
    seed(muster, *HOSTILE)
    for group in HOSTILE:
        show(browser, muster, group)
        browser.wait(f"{STATE} == 'Empty' && document.querySelectorAll('#groups tr').length == {len(HOSTILE)}")
        browser.open("about:blank")
    show(browser, muster)
    browser.wait(f"document.querySelectorAll('#groups tr').length == {len(HOSTILE)}")
    assert browser.eval("document.title") == "Muster"
    assert browser.eval("document.querySelectorAll('#groups script, #groups img, #events script').length") == 0
    shown = browser.text("#groups")
    assert "<script>document.title = 'taken'</script>" in shown
    assert "abc\\u202edcba" in shown and "\u202e" not in shown
    assert "line\\u000abreak\\u0000\\u001b[31m" in shown
    assert "x" * 120 + "…" in shown and "x" * 121 not in shown
    assert "größer 😀 日本語" in shown
    assert browser.eval("document.documentElement.scrollWidth <= window.innerWidth")


def test_it_is_used_by_keys(browser: Browser, muster: Muster) -> None:
    seed(muster, "a", "b", "c")
    show(browser, muster)
    browser.wait("document.querySelectorAll('#groups tr').length == 3")
    browser.press("ArrowDown")
    browser.press("ArrowDown")
    browser.press("Enter")
    browser.wait("document.querySelector('#group-title').textContent == 'b'")
    assert browser.eval("location.hash") == "#group=b"
    browser.press("Escape")
    browser.wait("document.querySelector('#group').hidden")
    browser.press("/")
    assert browser.eval("document.activeElement.id") == "search"
    browser.press("c")
    browser.wait("document.querySelectorAll('#groups tr').length == 1")
    browser.press("Escape")
    browser.press("?")
    assert browser.eval("document.querySelector('#help').open")


@pytest.mark.parametrize("is_dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [400, 1200])
def test_it_is_readable(muster: Muster, tmp_path: Path, width: int, is_dark: bool) -> None:
    """Nothing lies beyond the edge, and every text stands out from its ground (WCAG AA, 4.5 to 1)."""
    with Client.to(muster.kafka) as client, Browser(tmp_path, width=width, is_dark=is_dark) as browser:
        consumer_member(client, "a-group-with-a-rather-long-name-that-has-no-blank-in-it", "m-1")
        show(browser, muster, "a-group-with-a-rather-long-name-that-has-no-blank-in-it")
        browser.wait(f"{STATE} == 'Stable'")
        assert browser.eval("document.documentElement.scrollWidth") <= width
        faint = browser.eval(CONTRAST)
        assert faint == []
        assert browser.eval("getComputedStyle(document.body).backgroundColor") == (
            "rgb(20, 23, 27)" if is_dark else "rgb(246, 247, 249)"
        )
        assert not browser.errors


CONTRAST = """(() => {
  const read = (color) => (color.match(/[\\d.]+/g) ?? []).map(Number);
  const shine = (rgb) => rgb.slice(0, 3).map((one) => one / 255).map((one) => one <= 0.03928 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4)
    .reduce((sum, one, at) => sum + one * [0.2126, 0.7152, 0.0722][at], 0);
  const ground = (element) => {
    for (let one = element; one; one = one.parentElement) {
      const found = read(getComputedStyle(one).backgroundColor);
      if (found.length === 3 || found[3] > 0) return found;
    }
    return [255, 255, 255];
  };
  const faint = [];
  for (const element of document.querySelectorAll("body *")) {
    const hasText = [...element.childNodes].some((one) => one.nodeType === 3 && one.textContent.trim());
    if (!hasText || !element.checkVisibility() || element.getAnimations().length) continue;
    const [ink, below] = [shine(read(getComputedStyle(element).color)), shine(ground(element))];
    const ratio = (Math.max(ink, below) + 0.05) / (Math.min(ink, below) + 0.05);
    if (ratio < 4.5) faint.push(`${element.tagName} ${element.textContent.slice(0, 40)}: ${ratio.toFixed(2)}`);
  }
  return faint;
})()"""
