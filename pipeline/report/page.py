"""The page, from the rows that it shows: a pure function to HTML."""

from collections.abc import Callable, Iterable
from typing import Any

from pipeline.history.timeline import describe_gap
from pipeline.report.data import ReportData, Story, collect
from pipeline.report.names import short_names, shorten
from pipeline.report.style import CAUSES, OTHER, STYLE
from pipeline.report.svg import INK, Bar, Lanes, Line, Lines, Mark, bars, clock, legend, number, safe, timeline

__all__ = ["collect", "page"]

Row = dict[str, Any]
STATUSES = {
    "OK": "ok",
    "UNKNOWN": "unknown",
    "WARN": "falling behind",
    "RESTLESS": "rebalances all the time",
    "STALL": "stuck",
    "STOP": "stopped committing",
    "REWIND": "went back",
    "ERR": "in trouble",
}
NUMERIC = "n"


class Cell:
    """Text of a cell that says more when it is pointed at, and may have a class of its own."""

    def __init__(self, text: object, full: object = "", kind: str = "") -> None:
        self.text, self.full, self.kind = text, full, kind


def page(data: ReportData, title: str) -> str:
    """Return the whole HTML file."""
    sections = [
        _problems(data), _news(data), _groups(data), *(_story(story) for story in data.stories), _partitions(data),
        _trouble(data), _queues(data), _rebalances(data), _stickiness(data), _logs(data),
    ]  # fmt: skip
    shown = [(number, one) for number, one in enumerate(sections) if one is not None]
    contents = "".join(f'<li><a href="#s{i}">{safe(name, 80)}</a></li>' for i, (name, _) in shown)
    body = "".join(f'<section id="s{i}"><h2>{safe(name, 80)}</h2>{text}</section>' for i, (name, text) in shown)
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{safe(title)}</title>'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<style>{STYLE}</style></head><body>{_head(data, title)}<nav><ul>{contents}</ul></nav>{body}</body></html>"
    )


def table(columns: dict[str, Callable[[Row], Any]], rows: Iterable[Row], empty: str) -> str:
    """Return rows as a table; numbers, and the headings of their columns, are set to the right."""
    body: list[str] = []
    numeric: set[str] = set()
    for row in rows:
        cells = []
        for name, of in columns.items():
            value = of(row)
            cell = value if isinstance(value, Cell) else Cell(value)
            is_number = isinstance(cell.text, int | float) and not isinstance(cell.text, bool)
            text = "-" if cell.text is None else _full(cell.text) if is_number else cell.text
            kinds = " ".join(kind for kind in (NUMERIC if is_number else "", cell.kind) if kind)
            tip = f' title="{safe(cell.full)}"' if cell.full and str(cell.full) != str(cell.text) else ""
            cells.append(f'<td class="{kinds}"{tip}>{safe(text)}</td>')
            if is_number or NUMERIC in cell.kind.split():
                numeric.add(name)
        body.append(f"<tr>{''.join(cells)}</tr>")
    if not body:
        return f'<p class="none">{safe(empty)}</p>'
    head = "".join(f'<th class="{NUMERIC if name in numeric else ""}">{safe(name)}</th>' for name in columns)
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{"".join(body)}</tbody></table></div>'


def _full(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.1f}"


def _get(name: str) -> Callable[[Row], Any]:
    return lambda row: row.get(name)


def _how(text: str) -> str:
    return f'<p class="how">{safe(text, 700)}</p>'


def _status(row: Row) -> Cell:
    status = str(row["status"])
    return Cell(STATUSES.get(status, status), status, safe(status, 20))


def _since(name: str) -> Callable[[Row], Any]:
    return lambda row: Cell(clock(row[name]), kind="w") if row.get(name) else None


def _duration(name: str) -> Callable[[Row], Any]:
    """Return the milliseconds of a column with a unit that suits them."""

    def cell(row: Row) -> Any:
        if (ms := row.get(name)) is None:
            return None
        return Cell(f"{ms:,} ms" if ms < 1000 else f"{ms / 1000:,.1f} s", kind=NUMERIC)

    return cell


def _member(names: dict[str, str]) -> Callable[[Row], Any]:
    return lambda row: Cell(names[row["member_id"]], row["member_id"]) if row.get("member_id") else None


def _head(data: ReportData, title: str) -> str:
    span = (
        "no commits"
        if data.first_ms is None or data.last_ms is None
        else f"{clock(data.first_ms)} to {clock(data.last_ms)} UTC"
    )
    order = sorted(data.statuses.items(), key=lambda one: list(STATUSES).index(one[0]) if one[0] in STATUSES else 9)
    states = ", ".join(f"{count:,} {STATUSES.get(name, name)}" for name, count in order) or "none"
    tiles = {
        "groups": f"{data.groups_total:,}",
        "groups by health": states,
        "rebalances": f"{data.rebalances_total:,}",
        "partitions with commits": f"{data.partitions_total:,}",
        "problems in the logs": f"{data.problems_total:,}",
    }
    boxes = "".join(f"<div><b>{safe(value)}</b>{safe(name)}</div>" for name, value in tiles.items())
    read = ", ".join(f"{log} up to offset {offset:,}" for log, offset in sorted(data.logs.items()))
    where = ", ".join(data.paths)
    return (
        f'<h1>{safe(title)}</h1><p class="how">{safe(span)}</p><div class="tiles">{boxes}</div>'
        f"<details><summary>Logs that were read: {len(data.logs)}</summary>"
        f"<p>{safe(where, 400)}: {safe(read, 4000)}</p></details>"
    )


def _problems(data: ReportData) -> tuple[str, str] | None:
    if not data.problems:
        return None
    columns = {
        "Severity": lambda r: Cell(r["severity"], kind=safe(r["severity"], 20)), "Kind": _get("kind"),
        "Log": _get("log_dir"), "Segment": lambda r: str(r["segment_base"]), "Byte": lambda r: str(r["pos"]),
        "Offsets": _range, "Detail": _get("detail"),
    }  # fmt: skip
    how = "What could not be read. Offsets in these ranges are missing from everything below; info: nothing was lost."
    return "Problems in the logs", _how(how) + table(columns, data.problems, "")


def _range(row: Row) -> str:
    return f"{row['from_offset']} to {'the end' if row['to_offset'] is None else row['to_offset']}"


def _names_in(rebalances: list[Row]) -> dict[str, str]:
    members = [member for row in rebalances for member in (*(row.get("joined") or ()), *(row.get("left") or ()))]
    return short_names((member, None, None) for member in members)


def _news(data: ReportData) -> tuple[str, str] | None:
    """Return the latest rebalances as sentences: what one wants to know first."""
    if not data.rebalances:
        return None
    names = _names_in(data.rebalances)
    items = "".join(f"<li>{_sentence(row, names)}</li>" for row in data.rebalances[:8])
    return "What happened last", f'<ul class="news">{items}</ul>'


def _why(row: Row) -> str:
    inferred = f"{', '.join(row['causes']).replace('_', ' ')} (inferred)"
    return inferred if row["cause_source"] != "event_log" else str(row["cause_detail"] or row["cause"])


def _sentence(row: Row, names: dict[str, str]) -> str:
    dot = f'<i style="background:{CAUSES.get(row["cause"], OTHER)}"></i>'
    seen = [f"members {row['members_before']} to {row['members_after']}"]
    if row["partitions_moved"]:
        seen.append(f"{row['partitions_moved']} {'tasks' if row.get('type') == 'streams' else 'partitions'} moved")
    if gap := describe_gap(row["commit_gap_ms"], row["commit_gap_partitions"], row["commit_interval_ms"]):
        seen.append(gap)
    why = shorten(_why(row), names)
    full = f' title="{safe(_why(row), 400)}"' if why != _why(row) else ""
    text = f"{clock(row['at_ms'])} <b>{safe(row['group'], 60)}</b>: <span{full}>{safe(why, 300)}</span>"
    return f"{dot}{text}; {safe(', '.join(seen))}."


def _groups(data: ReportData) -> tuple[str, str]:
    columns = {
        "Group": _get("group"), "Type": _get("type"), "Members": _get("members"), "Generation": _get("generation"),
        "Assignor": _get("protocol"), "Partitions": _get("partitions"), "Lag (records)": _get("total_lag"),
        "Largest lag": _get("max_lag"), "Health": _status, "Empty since": _since("empty_since"),
    }  # fmt: skip
    left_out = data.groups_total - len(data.groups)
    more = f" The {len(data.groups)} worst of {data.groups_total:,} are shown." if left_out else ""
    how = "Lag is '-' where the ends of the topics' logs were not given (build --ends)." + more
    return "Groups", _how(how) + table(columns, data.groups, "No group has a record or a commit.")


def _story(story: Story) -> tuple[str, str]:
    """Draw lag, rates, members and owners over one time axis; rebalances are lines through all of it."""
    title = f"Group {story.group} over time"
    times = [row["ts"] for row in (*story.lag, *story.consumed)] + [row["at_ms"] for row in story.rebalances]
    times += [t for row in (*story.sessions, *story.owners) for t in (row["from_ts"], row["to_ts"]) if t is not None]
    if not times:
        return title, '<p class="none">nothing to draw</p>'
    span = min(times), max(times)
    names = short_names((row["member_id"], row["instance_id"], row["client_id"]) for row in story.sessions)
    names |= {id_: name for id_, name in _names_in(story.rebalances).items() if id_ not in names}
    bands = [band for band in (_lag_band(story), _rate_band(story), *_lane_bands(story, names, span[1])) if band]
    marks = [
        Mark(row["at_ms"], CAUSES.get(row["cause"], OTHER), f"{clock(row['at_ms'])}: {shorten(_why(row), names)}")
        for row in story.rebalances
    ]
    used = {row["cause"].replace("_", " "): CAUSES.get(row["cause"], OTHER) for row in story.rebalances}
    key = (
        legend({line.name: line.colour for line in bands[0].lines}) if story.lag and isinstance(bands[0], Lines) else ""
    )
    key += f'<p class="how">Rebalances, by cause:</p>{legend(used)}' if used else ""
    return title, timeline(bands, marks, span) + key


def _lag_band(story: Story) -> Lines | None:
    parts: dict[str, list[tuple[int, float]]] = {}
    for row in story.lag:
        parts.setdefault(f"{row['topic']}-{row['partition']}", []).append((row["ts"], float(row["lag"])))
    if not parts:
        return None
    lines = [
        Line(f"lag of {name}", points, INK[i % len(INK)]) for i, (name, points) in enumerate(sorted(parts.items()))
    ]
    return Lines("Lag of each partition", "records", lines)


def _rate_band(story: Story) -> Lines | None:
    given = (("produced", story.produced, INK[7]), ("committed", story.consumed, INK[0]))
    lines = [
        Line(name, [(row["ts"], float(row["per_s"])) for row in rows], colour, is_bold=name == "committed")
        for name, rows, colour in given
        if rows
    ]
    titles = ", ".join(f"{line.name} {'grey' if line.name == 'produced' else 'blue'}" for line in lines)
    return Lines("Records a second", titles, lines, 64) if lines else None


def _lane_bands(story: Story, names: dict[str, str], end: int) -> Iterable[Lanes]:
    """Draw members, and the owner of each partition in the member's colour."""
    colours = {member: INK[i % 7] for i, member in enumerate(names)}

    def colour(owner: str) -> str:
        return colours.get(owner, INK[7])

    members = [
        (
            names[row["member_id"]],
            f"{row['member_id']} on {row['host']}",
            [
                Bar(
                    row["from_ts"],
                    end if row["to_ts"] is None else row["to_ts"],
                    colour(row["member_id"]),
                    _session(row),
                )
            ],
        )
        for row in story.sessions
    ]
    if members:
        yield Lanes("Members", members)
    lanes: dict[tuple[str, int], list[Bar]] = {}
    for row in story.owners:
        to = end if row["to_ts"] is None else row["to_ts"]
        owner = names.get(row["owner"], row["owner"])
        tip = f"{row['topic']}-{row['partition']}: {owner}, {clock(row['from_ts'])} to {clock(to)}"
        lanes.setdefault((row["topic"], row["partition"]), []).append(
            Bar(row["from_ts"], to, colour(row["owner"]), tip)
        )
    if lanes:
        yield Lanes(
            "Owner of each partition, in its colour",
            [(f"{topic}-{number}", f"{topic}-{number}", found) for (topic, number), found in sorted(lanes.items())],
        )


def _session(row: Row) -> str:
    until = "still a member" if row["to_ts"] is None else f"until {clock(row['to_ts'])}"
    why = f", {row['end_reason'].replace('_', ' ')}" if row["end_reason"] else ""
    return f"{row['member_id']}: from {clock(row['from_ts'])} {until}{why}"


def _partitions(data: ReportData) -> tuple[str, str]:
    names = short_names((row["member_id"], None, row["client_id"]) for row in data.partitions if row["member_id"])
    columns = {
        "Group": _get("group"), "Topic": _get("topic"), "Partition": _get("partition"),
        "Committed": _get("current_offset"), "Log end": _get("log_end_offset"), "Lag (records)": _lag,
        "Lag (time)": lambda r: None
        if r.get("lag_seconds") is None
        else Cell(f"about {r['lag_seconds']:,.1f} s", kind="n"),
        "Owner": _member(names), "Host": _get("client_host"), "Health": _status,
    }  # fmt: skip
    shown = f"The {len(data.partitions)} worst of {data.partitions_total:,}." if data.partitions else ""
    how = f"{shown} A lag of 'at least' is counted up to the highest commit of any group: no log end was given."
    return "Partitions", _how(how) + table(columns, data.partitions, "No offsets are committed.")


def _lag(row: Row) -> Any:
    if row["lag"] is None and row.get("lag_at_least"):
        return Cell(f"at least {number(row['lag_at_least'])}", kind=NUMERIC)
    if row["beyond_end"]:
        return Cell(f"0, {number(row['beyond_end'])} beyond the end", kind=NUMERIC)
    return row["lag"]


def _trouble(data: ReportData) -> tuple[str, str]:
    columns = {
        "Group": _get("group"), "Topic": _get("topic"), "Partition": _get("partition"), "Health": _status,
        "Went back by": _get("worst_rewind"), "Lag (records)": _lag,
        "Silent for": lambda r: None if r["quiet_s"] is None else Cell(f"{r['quiet_s']:,.0f} s", kind=NUMERIC),
        "Unusually silent": lambda r: "yes" if r["quiet_too_long"] else "no",
        "Lag grows by": lambda r: None if r["lag_trend"] is None else Cell(f"{r['lag_trend']:+.1f} a commit", kind="n"),
    }  # fmt: skip
    how = (
        "Offsets that went backwards or lie beyond the end of a log that was cut or made anew, lag that grows, and "
        "silence that is longer than the partition's own rhythm."
    )
    if not data.restless:
        return "Went back, stuck, silent", _how(how) + table(columns, data.trouble, "Nothing to worry about.")
    often = {
        "Group": _get("group"), "Rebalances within a minute": _get("busiest"), "In all": _get("rebalances"),
        "Most often": _get("cause"),
    }  # fmt: skip
    unrest = _how("Groups that rebalance all the time.") + table(often, data.restless, "None.")
    return "Went back, stuck, silent", unrest + _how(how) + table(columns, data.trouble, "No offset went back.")


def _queues(data: ReportData) -> tuple[str, str] | None:
    if not data.queues and not data.given_up:
        return None
    columns = {
        "Group": _get("group"), "Members": _get("members"), "Partitions": _get("partitions"),
        "Given back": _get("available"), "Accepted ahead": _get("acknowledged"), "Archived": _get("archived"),
        "Deliveries at most": _get("max_delivery_count"), "Last change (UTC)": _since("last_ts"),
    }  # fmt: skip
    given_up = {
        "At (UTC)": _since("at_ms"), "Group": _get("group"),
        "Topic": lambda r: r["topic"] or Cell(r["topic_id"][:8], r["topic_id"]), "Partition": _get("partition"),
        "Offsets": lambda r: Cell(_offsets(r), kind="w"), "Records": _get("records"),
        "Deliveries": _get("delivery_count"),
    }  # fmt: skip
    how = (
        "Records between a group's start offset and the last one that was delivered: 'given back' wait for their next"
        " delivery, 'accepted ahead' are done while one before them is not. No log tells which records a member has at"
        " this moment."
    )
    why = (
        "Poison records: a member rejected them, or they were delivered as often as the group's limit has it. An offset"
        " without a record is archived as well, mostly after one delivery."
    )
    text = _how(how) + table(columns, data.queues, "No state of a share group was read.")
    return "Share groups", text + "<h3>Archived</h3>" + _how(why) + table(given_up, data.given_up, "None.")


def _offsets(row: Row) -> str:
    first, last = row["first_offset"], row["last_offset"]
    return f"{first:,}" if first == last else f"{first:,} to {last:,}"


def _rebalances(data: ReportData) -> tuple[str, str]:
    names = _names_in(data.rebalances)
    causes = [
        (row["cause"].replace("_", " "), row["cause"], float(row["count"]),
         f"{row['count']:,} ({'event log' if row['cause_source'] == 'event_log' else 'inferred'})",
         CAUSES.get(row["cause"], OTHER))
        for row in data.causes
    ]  # fmt: skip
    counts = {row["range"]: row["count"] for row in data.sync_ms}
    order = ("< 10 ms", "10-100 ms", "0.1-1 s", "1-10 s", "> 10 s")
    sync = [(name, name, float(counts.get(name, 0)), f"{counts.get(name, 0):,}", INK[0]) for name in order if counts]
    columns = {
        "At (UTC)": lambda r: Cell(clock(r["at_ms"]), kind="w"), "Group": _get("group"),
        "Generation": _get("generation"), "Cause": lambda r: ", ".join(r["causes"]).replace("_", " "),
        "Detail": lambda r: Cell(shorten(r["cause_detail"] or "", names), r["cause_detail"]),
        "Members": lambda r: Cell(f"{r['members_before']} to {r['members_after']}", kind="w"),
        "Join to sync": _duration("sync_ms"),
        "Without commits": lambda r: Cell(f"{r['commit_gap_ms'] / 1000:,.1f} s", r["commit_gap_partitions"], NUMERIC)
        if r["commit_gap_ms"] is not None
        else None,
        "Partitions moved": _get("partitions_moved"),
    }  # fmt: skip
    how = (
        "Causes are inferred from neighbouring records unless the server's event log told them. A log does not tell"
        " when a rebalance began: 'join to sync' is how long the group waited for its assignment, 'without commits' the"
        " longest time without a commit of a partition that changed hands."
    )
    text = _how(how) + bars(causes) + "<h3>From JoinGroup to SyncGroup</h3>" + bars(sync) + "<h3>The latest</h3>"
    return "Rebalances", text + table(columns, data.rebalances, "No group rebalanced.")


def _stickiness(data: ReportData) -> tuple[str, str] | None:
    if not data.stickiness:
        return None
    rows = [
        (row["group"], row["group"], row["stickiness"], f"{row['stickiness']:.0%} of {row['common']:,} kept", INK[2])
        for row in data.stickiness
    ]  # fmt: skip
    how = "Of the partitions with an owner before and after a rebalance, the share that kept it; the lowest first."
    return "Partitions that kept their owner", _how(how) + bars(rows, most=1.0)


def _logs(data: ReportData) -> tuple[str, str]:
    columns = {
        "Log": _get("log_dir"), "Bytes": _get("bytes"), "Segments": _get("segments"), "Commits": _get("commits"),
        "Still needed": _get("live_commits"),
        "Superseded": lambda r: None if r["dead_ratio"] is None else Cell(f"{r['dead_ratio']:.0%}", kind=NUMERIC),
        "Deletions": _get("tombstones"), "Aborted": _get("aborted_commits"), "Open transactions": _get("open_txns"),
        "Oldest open": _since("oldest_open_txn_ts"),
        "To load": lambda r: Cell(f"{r['replay_s']:.2f} s", kind=NUMERIC),
    }  # fmt: skip
    unknown = {"Key type": lambda r: str(r["key_version"]), "Why": _get("reason"), "Records": _get("count")}
    how = (
        "Superseded commits are what compaction would remove. 'To load' is an estimate of how long a coordinator reads"
        " the log when it starts, at 50 MiB a second."
    )
    text = _how(how) + table(columns, data.health, "No log was read.")
    return "The logs themselves", text + "<h3>Records that were not decoded</h3>" + table(
        unknown, data.unknown, "None."
    )
