"""What the page says of many groups at once: each cell, and where each bar, line and mark of a picture lies."""

import re
from collections import defaultdict
from random import Random
from typing import Any
from xml.etree.ElementTree import Element, fromstring

import pytest

from pipeline.report.data import ReportData, Story, collect
from pipeline.report.page import STATUSES, page
from pipeline.report.style import CAUSES
from pipeline.report.svg import INK, NARROW, WIDE, Canvas, clock
from tests.pipeline.report_tables import MadeUpTables, Row, publish

Cells = list[dict[str, str]]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> ReportData:
    return collect(publish(tmp_path_factory.mktemp("report") / "t", MadeUpTables(Random(7)).tables))


@pytest.fixture(scope="module")
def sections(data: ReportData) -> dict[str, Element]:
    found = map(fromstring, re.findall("<section.*?</section>", page(data, "t"), re.DOTALL))
    return {text_of(one.find("h2")): one for one in found}


def text_of(one: Element | None) -> str:
    assert one is not None
    return "".join(one.itertext())


def tables_of(section: Element) -> list[Cells]:
    found = []
    for table in section.iter("table"):
        head = [text_of(one) for one in table.iter("th")]
        rows = [[text_of(cell) for cell in row] for row in table.iter("tr")]
        found.append([dict(zip(head, row, strict=True)) for row in rows[1:]])
    return found


def say(value: Any) -> str:
    return "-" if value is None else f"{value:,}" if isinstance(value, int) else f"{value:,.1f}" if isinstance(value, float) else str(value)  # fmt: skip


def test_groups(data: ReportData, sections: dict[str, Element]) -> None:
    (cells,) = tables_of(sections["Groups"])
    names = {
        "Group": "group", "Type": "type", "Members": "members", "Generation": "generation", "Assignor": "protocol",
        "Partitions": "partitions", "Lag (records)": "total_lag", "Largest lag": "max_lag",
    }  # fmt: skip
    assert cells == [
        {head: say(row[name]) for head, name in names.items()}
        | {"Health": STATUSES[row["status"]], "Empty since": (row["empty_since"] and clock(row["empty_since"])) or "-"}
        for row in data.groups
    ]


def lag(row: Row) -> str:
    if row["lag"] is None and row["lag_at_least"]:
        return {9: "at least 9", 250_000: "at least 250 k"}[row["lag_at_least"]]
    return f"0, {row['beyond_end']} beyond the end" if row["beyond_end"] else say(row["lag"])


def test_partitions_and_what_went_back(data: ReportData, sections: dict[str, Element]) -> None:
    (cells,) = tables_of(sections["Partitions"])
    names = {
        "Group": "group", "Topic": "topic", "Partition": "partition", "Committed": "current_offset",
        "Log end": "log_end_offset", "Host": "client_host",
    }  # fmt: skip
    assert [{name: value for name, value in one.items() if name != "Owner"} for one in cells] == [
        {head: say(row[name]) for head, name in names.items()}
        | {"Lag (records)": lag(row), "Health": STATUSES[row["status"]]}
        | {"Lag (time)": {None: "-", 1.5: "about 1.5 s", 2_000.0: "about 2,000.0 s"}[row["lag_seconds"]]}
        for row in data.partitions
    ]
    assert [one["Owner"] for one in cells] == [say(row["member_id"]) for row in data.partitions]
    restless, trouble = tables_of(sections["Went back, stuck, silent"])
    assert [tuple(one.values()) for one in restless] == [
        (row["group"], say(row["busiest"]), say(row["rebalances"]), row["cause"]) for row in data.restless
    ]
    assert trouble == [
        {
            "Group": row["group"], "Topic": row["topic"], "Partition": say(row["partition"]),
            "Health": STATUSES[row["status"]], "Went back by": say(row["worst_rewind"]), "Lag (records)": lag(row),
            "Silent for": {None: "-", 12.0: "12 s", 4_000.0: "4,000 s"}[row["quiet_s"]],
            "Unusually silent": "yes" if row["quiet_too_long"] else "no",
            "Lag grows by": {None: "-", -2.5: "-2.5 a commit", 12.25: "+12.2 a commit"}[row["lag_trend"]],
        }
        for row in data.trouble
    ]  # fmt: skip


WAITS = {None: "-", 0: "0 ms", 9: "9 ms", 10: "10 ms", 99: "99 ms", 100: "100 ms", 999: "999 ms", 1000: "1.0 s", 9999: "10.0 s", 10_000: "10.0 s"}  # fmt: skip
GAPS = {None: "-", 1_500: "1.5 s", 90_000: "90.0 s"}


def test_rebalances(data: ReportData, sections: dict[str, Element]) -> None:
    (cells,) = tables_of(sections["Rebalances"])
    assert cells == [
        {
            "At (UTC)": clock(row["at_ms"]), "Group": row["group"], "Generation": say(row["generation"]),
            "Cause": ", ".join(row["causes"]).replace("_", " "), "Detail": row["cause_detail"],
            "Members": f"{row['members_before']} to {row['members_after']}", "Join to sync": WAITS[row["sync_ms"]],
            "Without commits": GAPS[row["commit_gap_ms"]], "Partitions moved": say(row["partitions_moved"]),
        }
        for row in data.rebalances
    ]  # fmt: skip
    pictures = [one for one in sections["Rebalances"].iter("svg") if one.get("viewBox", "").startswith("0 0 960 ")]
    causes = [
        (row["cause"].replace("_", " "), row["count"], f"{row['count']} ({row['cause_source'].replace('_', ' ')})")
        for row in data.causes
    ]
    assert bars_of(pictures[0]) == ([one[0] for one in causes], [one[2] for one in causes])
    counts = {row["range"]: row["count"] for row in data.sync_ms}
    order = ["< 10 ms", "10-100 ms", "0.1-1 s", "1-10 s", "> 10 s"]
    assert bars_of(pictures[1]) == (order, [str(counts[name]) for name in order])
    for picture, values in ((pictures[0], [one[1] for one in causes]), (pictures[1], [counts[name] for name in order])):
        widths = [float(one.attrib["width"]) for one in picture.iter("rect")]
        assert widths == pytest.approx([value * max(widths) / max(values) for value in values], abs=1)


def bars_of(picture: Element) -> tuple[list[str], list[str]]:
    """The names and the labels of bars, from above."""
    names = [one.text or "" for one in picture.iter("text") if one.get("class") == "name"]
    return names, [one.text or "" for one in picture.iter("text") if one.get("class") is None]


def why(row: Row) -> str:
    inferred = f"{', '.join(row['causes']).replace('_', ' ')} (inferred)"
    return inferred if row["cause_source"] == "inferred" else row["cause_detail"] or row["cause"]


def test_news(data: ReportData, sections: dict[str, Element]) -> None:
    items = [text_of(one) for one in sections["What happened last"].iter("li")]
    expected = []
    for row in data.rebalances[:8]:
        seen = [f"members {row['members_before']} to {row['members_after']}"]
        seen += [f"{row['partitions_moved']} partitions moved"] if row["partitions_moved"] else []
        usual = ", usually 1.0 s" if row["commit_interval_ms"] else ""
        is_long = row["commit_gap_ms"] and row["commit_gap_ms"] >= 2 * (row["commit_interval_ms"] or 0)
        seen += [f"orders 0-1 {row['commit_gap_ms'] / 1000} s without a commit{usual}"] if is_long else []
        expected.append(f"{clock(row['at_ms'])} {row['group']}: {why(row)}; {', '.join(seen)}.")
    assert items == expected


def test_share_groups_and_logs(data: ReportData, sections: dict[str, Element]) -> None:
    queues, given_up = tables_of(sections["Share groups"])
    fields = ("group", "members", "partitions", "available", "acknowledged", "archived", "max_delivery_count")
    assert [tuple(one.values()) for one in queues] == [
        (*(say(row[name]) for name in fields), clock(row["last_ts"])) for row in data.queues
    ]
    assert [tuple(one.values()) for one in given_up] == [
        (
            clock(row["at_ms"]), row["group"], row["topic"] or "0b0c0d0e", say(row["partition"]),
            say(row["first_offset"]) + (f" to {say(row['last_offset'])}" if row["records"] > 1 else ""),
            say(row["records"]), say(row["delivery_count"]),
        )
        for row in data.given_up
    ]  # fmt: skip
    logs, unknown = tables_of(sections["The logs themselves"])
    first = ("log_dir", "bytes", "segments", "commits", "live_commits")
    more = ("tombstones", "aborted_commits", "open_txns")
    assert [tuple(one.values()) for one in logs] == [
        (
            *(say(row[name]) for name in first), {None: "-", 0.25: "25%"}[row["dead_ratio"]],
            *(say(row[name]) for name in more), (row["oldest_open_txn_ts"] and clock(row["oldest_open_txn_ts"])) or "-",
            "1.50 s",
        )
        for row in data.health
    ]  # fmt: skip
    assert [tuple(one.values()) for one in unknown] == [
        (str(row["key_version"]), row["reason"], say(row["count"])) for row in data.unknown
    ]
    (problems,) = tables_of(sections["Problems in the logs"])
    assert [(one["Severity"], one["Log"], one["Byte"], one["Offsets"]) for one in problems] == [
        (row["severity"], row["log_dir"], str(row["pos"]), f"{row['from_offset']} to {row['to_offset'] or 'the end'}")
        for row in data.problems
    ]


class Picture:
    """A group's picture, read back: times by where things lie."""

    def __init__(self, section: Element, canvas: Canvas, story: Story) -> None:
        start = f"0 0 {canvas.width} "
        self.svg = next(one for one in section.iter("svg") if one.get("viewBox", "").startswith(start))
        self.canvas = canvas
        times = [row["ts"] for row in (*story.lag, *story.consumed)] + [row["at_ms"] for row in story.rebalances]
        of_bars = [(row["from_ts"], row["to_ts"]) for row in (*story.sessions, *story.owners)]
        times += [one for both in of_bars for one in both if one is not None]
        self.first, self.last = min(times), max(times)

    def x(self, at: int) -> Any:
        inner = self.canvas.width - self.canvas.left - self.canvas.right
        return pytest.approx(self.canvas.left + inner * (at - self.first) / (self.last - self.first), abs=0.06)

    def bar(self, from_ts: int, to_ts: int | None) -> tuple[Any, Any]:
        """Where a bar begins and how long it is; one that lasts ends with the picture."""
        inner = self.canvas.width - self.canvas.left - self.canvas.right
        lasts = (self.last if to_ts is None else to_ts) - from_ts
        return self.x(from_ts), pytest.approx(max(2, inner * lasts / (self.last - self.first)), abs=0.06)

    def lanes(self) -> list[tuple[str, str, list[tuple[float, float, str, str]]]]:
        """From above: the name of each lane, the full one, and its bars: x, width, colour, what it says."""
        bars = defaultdict[float, list[tuple[float, float, str, str]]](list)
        for one in self.svg.iter("rect"):
            at = float(one.attrib["y"])
            bars[at].append((float(one.attrib["x"]), float(one.attrib["width"]), one.attrib["fill"], text_of(one)))
        found = []
        for one in self.svg.iter("text"):
            title = one.find("title")
            if one.get("class") == "name" and title is not None:
                y = float(one.attrib["y"])
                (near,) = [at for at in bars if abs(at + 10 - y) <= 1]
                found.append((one.text or "", text_of(title), bars.pop(near)))
        assert not bars, "each bar has a lane"
        return found


@pytest.mark.parametrize("canvas", [WIDE, NARROW], ids=lambda one: one.kind)
def test_bars_last_as_long_as_memberships_and_have_the_colour_of_the_owner(
    data: ReportData, sections: dict[str, Element], canvas: Canvas
) -> None:
    shared = 0
    for story in data.stories:
        picture = Picture(sections[f"Group {story.group} over time"], canvas, story)
        lanes = picture.lanes()
        members, owners = lanes[: len(story.sessions)], lanes[len(story.sessions) :]
        colours, shown = dict[str, str](), dict[str, str]()
        for row, (short, name, bars) in zip(story.sessions, members, strict=True):
            assert name == f"{row['member_id']} on {row['host']}"
            instance = shown.setdefault(row["member_id"], row["instance_id"] or row["member_id"])
            assert short == (instance if len(instance) <= canvas.name else f"{instance[: canvas.name]}…")
            ((x, width, colour, tip),) = bars
            assert (x, width) == picture.bar(row["from_ts"], row["to_ts"])
            until = "still a member" if row["to_ts"] is None else f"until {clock(row['to_ts'])}"
            why = f", {row['end_reason'].replace('_', ' ')}" if row["end_reason"] else ""
            assert tip == f"{row['member_id']}: from {clock(row['from_ts'])} {until}{why}"
            assert colours.setdefault(row["member_id"], colour) == colour
        assert len(set(colours.values())) == min(7, len(colours))
        places = sorted({(row["topic"], row["partition"]) for row in story.owners})
        assert [name for _, name, _ in owners] == [f"{topic}-{partition}" for topic, partition in places]
        for place, (_, _, bars) in zip(places, owners, strict=True):
            own = [row for row in story.owners if (row["topic"], row["partition"]) == place]
            assert [(x, width) for x, width, _, _ in bars] == [picture.bar(row["from_ts"], row["to_ts"]) for row in own]
            for row, (_, _, colour, tip) in zip(own, bars, strict=True):
                owner = shown.get(row["owner"], row["owner"])
                until = clock(picture.last if row["to_ts"] is None else row["to_ts"])
                assert tip == f"{place[0]}-{place[1]}: {owner}, {clock(row['from_ts'])} to {until}"
                shared += row["owner"] in colours
                assert colour == colours.get(row["owner"], colour)
    assert shared > 50


def values_of_axis(svg: Element) -> dict[float, float]:
    """By their y: the values at the left side of a band of lines."""
    sizes = {"k": 1e3, "M": 1e6}
    found = {}
    for one in svg.iter("text"):
        if one.get("class") == "name" and one.find("title") is None:
            value, _, unit = (one.text or "").replace(",", "").partition(" ")
            found[float(one.attrib["y"]) - 4] = float(value) * sizes.get(unit, 1)
    return found


@pytest.mark.parametrize("canvas", [WIDE, NARROW], ids=lambda one: one.kind)
def test_lines_go_through_their_points_and_marks_stand_where_the_group_rebalanced(
    data: ReportData, sections: dict[str, Element], canvas: Canvas
) -> None:
    for story in data.stories:
        picture = Picture(sections[f"Group {story.group} over time"], canvas, story)
        lags = defaultdict[str, list[tuple[int, float]]](list)
        for row in story.lag:
            lags[f"lag of {row['topic']}-{row['partition']}"].append((row["ts"], row["lag"]))
        rates = {
            "produced": [(row["ts"], row["per_s"]) for row in story.produced],
            "committed": [(row["ts"], row["per_s"]) for row in story.consumed],
        }
        expected = dict(sorted(lags.items())) | {name: points for name, points in rates.items() if points}
        lines = {text_of(one): one for one in picture.svg.iter("polyline")}
        assert list(lines) == list(expected)
        assert [name for name, one in lines.items() if one.get("stroke-width") == "2.4"] == ["committed"]
        axis = sorted(values_of_axis(picture.svg).items(), reverse=True)
        bands = [*([axis[3:]] if lags else []), axis[:3]]  # from above
        for name, points in expected.items():
            (bottom, zero), (_, half), (top, most) = bands[-1 if name in rates else 0]
            assert (zero, half) == (0, most / 2)
            drawn = [tuple(map(float, one.split(","))) for one in lines[name].attrib["points"].split()]
            assert [x for x, _ in drawn] == [picture.x(ts) for ts, _ in sorted(points)]
            assert [(bottom - y) / (bottom - top) * most for _, y in drawn] == pytest.approx(
                [value for _, value in sorted(points)], abs=1.2 * most / (bottom - top)
            )
        marks = [one for one in picture.svg.iter("g") if one.find("circle") is not None]
        for row, mark in zip(story.rebalances, marks, strict=True):
            circle = mark.find("circle")
            assert circle is not None
            assert float(circle.attrib["cx"]) == picture.x(row["at_ms"])
            assert circle.get("fill") == CAUSES[row["cause"]]
            assert text_of(mark) == f"{clock(row['at_ms'])}: {why(row)}"
        if lags:
            key = [text_of(one) for one in sections[f"Group {story.group} over time"].iter("span")]
            assert key[: len(lags)] == sorted(lags)
            assert set(key[len(lags) :]) == {row["cause"].replace("_", " ") for row in story.rebalances}


def test_bands_lie_below_each_other(data: ReportData, sections: dict[str, Element]) -> None:
    for story in data.stories:
        svg = next(sections[f"Group {story.group} over time"].iter("svg"))
        heights = [float(one.attrib["y"]) for one in svg.iter("text") if one.get("class") == "band"]
        insides = sorted([*values_of_axis(svg), *(float(one.attrib["y"]) for one in svg.iter("rect"))])
        assert heights == sorted(heights)
        assert max(insides) < float(svg.attrib["viewBox"].split()[3]) - 40
        for above, below in zip(heights[1:], [*heights[2:], 1e9], strict=True):
            assert any(above < y < below for y in insides), "a band has something in it"


def test_a_member_beyond_those_with_a_name_has_a_grey_bar() -> None:
    owners = [{"topic": "t", "partition": 0, "from_ts": 0, "to_ts": None, "owner": "stranger"}]
    session = {"member_id": "m", "instance_id": None, "client_id": "c", "host": "h", "from_ts": 5, "to_ts": 9, "end_reason": None}  # fmt: skip
    text = page(ReportData(stories=[Story("g", owners=owners, sessions=[session])]), "t")
    assert re.search(f'fill="{INK[7]}"><title>t-0: stranger', text)
    assert f'fill="{INK[0]}"><title>m: from' in text


@pytest.mark.parametrize("shown", [(), ("committed",), ("produced", "committed")])
def test_the_rates_that_are_drawn_are_named_with_their_colours(shown: tuple[str, ...]) -> None:
    rows = [{"ts": ts, "per_s": 2.5} for ts in (1_000, 61_000)]
    story = Story("g", produced=rows * ("produced" in shown), consumed=rows * ("committed" in shown))
    svg = re.search("<svg.*?</svg>", page(ReportData(stories=[story]), "t"), re.DOTALL)
    parts = [] if svg is None else [*fromstring(svg[0]).iter()]
    drawn = [(text_of(one), one.get("stroke")) for one in parts if one.tag.endswith("polyline")]
    words = {INK[7]: "grey", INK[0]: "blue"}
    titles = [text_of(one) for one in parts if one.get("class") == "band"]
    assert [name for name, _ in drawn] == list(shown)
    said = ", ".join(f"{name} {words[colour or '']}" for name, colour in drawn)
    assert titles == [f"Records a second ({said})"] * bool(shown)
