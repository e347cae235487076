"""The page, from what is told: a pure function to HTML."""

from collections.abc import Callable, Iterable
from typing import Any

from pipeline.report.svg import Bar, Dot, bars, clock, lanes, legend, lines, safe
from pipeline.report.told import Told, collect

__all__ = ["collect", "page"]

COLOURS = {
    "join": "#4f9d69",
    "leave": "#3b6fb6",
    "timeout": "#c0392b",
    "leave_or_timeout": "#7d6fb0",
    "static_rejoin": "#5fb3b3",
    "subscription_change": "#c9a227",
    "partition_count_change": "#8a5fa8",
    "assignor_change": "#b8476b",
    "emptied": "#6b6b6b",
    "deleted": "#222222",
    "unknown": "#b0b0b0",
}
STYLE = """
:root{color-scheme:light}body{font:14px/1.45 system-ui,sans-serif;margin:0 auto;max-width:1080px;padding:24px;
color:#222;background:#fff}h1{font-size:24px;margin:0}h2{font-size:18px;margin:36px 0 8px;border-bottom:1px solid #ddd}
.tiles{display:flex;gap:12px;flex-wrap:wrap;margin:16px 0}
.tiles div{background:#f4f5f7;border-radius:6px;padding:8px 14px}
.tiles b{display:block;font-size:20px}table{border-collapse:collapse;width:100%;font-size:13px}td,th{padding:3px 8px;
text-align:left;border-bottom:1px solid #eee;overflow-wrap:anywhere;vertical-align:top}th{color:#555;white-space:nowrap}
td.n{text-align:right}td.n,td.w{white-space:nowrap}td.n,td.w{overflow-wrap:normal}
ul.story{padding-left:18px;margin:8px 0}ul.story li{margin:4px 0;overflow-wrap:anywhere}ul.story i{display:inline-block;
width:10px;height:10px;border-radius:5px;margin-right:6px}.scroll{max-height:420px;overflow:auto;border:1px solid #eee}
.OK{color:#2e7d4f}.WARN{color:#b07900}.ERR,.STOP,.STALL,.REWIND,.problem{color:#c0392b;font-weight:600}
.none,.how{color:#777}svg{width:100%;height:auto;font:11px system-ui,sans-serif}svg .name{text-anchor:end}
svg .lane{stroke:#eee}svg .tick{stroke:#f3f3f3}svg .time{fill:#777}.legend span{margin-right:14px}
.legend i{display:inline-block;width:10px;height:10px;margin-right:4px;border-radius:2px}
""".replace("\n", "")


COLOURED = ("STATUS", "SEVERITY")  # columns whose words are class names, too
WHOLE = ("AT", "EMPTY SINCE", "OLDEST OPEN", "SOURCE", "MEMBERS")  # columns that are not broken over lines
TOLD_IN_WORDS = 8  # rebalances


def page(told: Told, title: str) -> str:
    """The whole HTML file."""
    parts = [_head(told, title), _problems(told), _story(told), _groups(told), _lag(told), _rebalances(told)]
    parts += [_members(told), _trouble(told), _partitions(told), _health(told)]
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{safe(title)}</title>'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<style>{STYLE}</style></head><body>{''.join(parts)}</body></html>"
    )


def table(columns: dict[str, Callable[[dict[str, Any]], Any]], rows: Iterable[dict[str, Any]], empty: str) -> str:
    """Rows as a table; a column that returns a number is set to the right, `status` is coloured by what it says."""
    body = []
    for row in rows:
        cells = []
        for name, of in columns.items():
            value = of(row)
            number = isinstance(value, int | float) and not isinstance(value, bool)
            shown = "-" if value is None else f"{value:,.0f}" if number else value
            kind = "n" if number else safe(value, 20) if name in COLOURED else "w" if name in WHOLE else ""
            cells.append(f'<td class="{kind}">{safe(shown)}</td>' if kind else f"<td>{safe(shown)}</td>")
        body.append(f"<tr>{''.join(cells)}</tr>")
    if not body:
        return f'<p class="none">{safe(empty)}</p>'
    head = "".join(f"<th>{safe(name)}</th>" for name in columns)
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{"".join(body)}</tbody></table></div>'


def _get(name: str) -> Callable[[dict[str, Any]], Any]:
    return lambda row: row.get(name)


def _section(title: str, how: str, *parts: str) -> str:
    return f'<section><h2>{safe(title)}</h2><p class="how">{safe(how, 600)}</p>{"".join(parts)}</section>'


def _head(told: Told, title: str) -> str:
    span = (
        "no commits"
        if told.first_ms is None or told.last_ms is None
        else f"{clock(told.first_ms)} to {clock(told.last_ms)} UTC"
    )
    states = ", ".join(f"{count} {name}" for name, count in sorted(told.statuses.items())) or "none"
    tiles = {
        "groups": f"{told.groups_total:,}",
        "Burrow status": states,
        "rebalances": f"{told.rebalances_total:,}",
        "partitions with commits": f"{told.partitions_total:,}",
        "problems in the logs": f"{told.problems_total:,}",
    }
    boxes = "".join(f"<div><b>{safe(value)}</b>{safe(name)}</div>" for name, value in tiles.items())
    read = ", ".join(f"{log} up to {offset:,}" for log, offset in sorted(told.logs.items())[:12])
    more = f" and {len(told.logs) - 12} more" if len(told.logs) > 12 else ""
    where = ", ".join(told.paths)
    return (
        f'<h1>{safe(title)}</h1><p class="how">{safe(span)}. Read from {safe(where, 400)}: {safe(read, 800)}{more}.</p>'
        f'<div class="tiles">{boxes}</div>'
    )


def _problems(told: Told) -> str:
    if not told.problems:
        return ""
    columns = {
        "SEVERITY": _get("severity"), "KIND": _get("kind"), "LOG": _get("log_dir"),
        "SEGMENT": lambda r: str(r["segment_base"]),
        "BYTE": lambda r: str(r["pos"]), "OFFSETS": _range,
        "DETAIL": _get("detail"),
    }  # fmt: skip
    how = "What could not be read. Offsets in these ranges are missing from everything below; info: nothing was lost."
    return _section("Problems in the logs", how, table(columns, told.problems, ""))


def _range(row: dict[str, Any]) -> str:
    return f"{row['from_offset']} to {'the end' if row['to_offset'] is None else row['to_offset']}"


def _story(told: Told) -> str:
    """The latest rebalances as sentences: what one wants to know first."""
    if not told.rebalances:
        return ""
    items = "".join(f"<li>{_sentence(row)}</li>" for row in reversed(told.rebalances[-TOLD_IN_WORDS:]))
    how = "The latest rebalances of the most restless groups, from rebalances."
    return _section("What happened", how, f'<ul class="story">{items}</ul>')


def _sentence(row: dict[str, Any]) -> str:
    dot = f'<i style="background:{COLOURS.get(row["cause"], "#b0b0b0")}"></i>'
    why = row["cause_detail"] if row["cause_source"] == "event_log" else f"{', '.join(row['causes'])} (inferred)"
    seen = [f"members {row['members_before']} to {row['members_after']}"]
    if row["partitions_moved"]:
        seen.append(f"{row['partitions_moved']} partitions moved")
    if row["commit_gap_ms"]:
        seen.append(f"{row['commit_gap_ms'] / 1000:.1f} s from the last commit before to the first one after")
    said = f"{clock(row['at_ms'])} <b>{safe(row['group'], 60)}</b>: {safe(why or row['cause'], 300)}"
    return f"{dot}{said}; {safe(', '.join(seen))}."


def _since(name: str) -> Callable[[dict[str, Any]], str | None]:
    return lambda row: clock(row[name]) if row.get(name) else None


def _groups(told: Told) -> str:
    columns = {
        "GROUP": _get("group"), "TYPE": _get("type"), "#MEMBERS": _get("members"), "GENERATION": _get("generation"),
        "ASSIGNMENT-STRATEGY": _get("protocol"), "PARTITIONS": _get("partitions"), "LAG": _get("total_lag"),
        "MAX LAG": _get("max_lag"), "STATUS": _get("status"),
        "EMPTY SINCE": _since("empty_since"),
    }  # fmt: skip
    more = (
        f" The {len(told.groups)} worst of {told.groups_total:,} are shown."
        if told.groups_total > len(told.groups)
        else ""
    )
    how = "From group_state and group_status. LAG is - where no log end offsets were handed in." + more
    return _section("Groups", how, table(columns, told.groups, "No group has a record or a commit."))


def _series(rows: list[dict[str, Any]], at: str, value: str) -> list[tuple[str, list[tuple[int, float]]]]:
    found: dict[str, list[tuple[int, float]]] = {}
    for row in rows:
        found.setdefault(row["group"], []).append((row[at], float(row[value] or 0)))
    return sorted(found.items())


def _lag(told: Told) -> str:
    lag = lines(_series(told.lag_history, "ts", "lag"))
    advance = lines(_series(told.progress, "window_start", "advance"))
    return _section(
        "Lag and progress over time",
        "Lag from lag_history, the groups with the most; it needs log end offsets of several moments. Below it offsets "
        "advanced per minute, from commit_velocity, the groups with the most commits.",
        "<h3>Lag</h3>", lag, "<h3>Offsets advanced per minute</h3>", advance,
    )  # fmt: skip


def _source(row: dict[str, Any]) -> str:
    return "event log" if row["cause_source"] == "event_log" else str(row["cause_source"])


def _rebalances(told: Told) -> str:
    by_group: dict[str, list[Dot | Bar]] = {}
    for row in told.rebalances:
        why = f"{', '.join(row['causes'])} ({_source(row)}); {row['cause_detail']}"
        tip = f"{clock(row['at_ms'])} generation {row['generation']}: {why}"
        by_group.setdefault(row["group"], []).append(Dot(row["at_ms"], row["cause"], tip))
    rows = sorted(by_group.items(), key=lambda one: (-len(one[1]), one[0]))
    used = {row["cause"] for row in told.rebalances}
    causes = [(row["cause"], float(row["count"]), f"{row['count']} {_source(row)}") for row in told.causes]
    order = ("< 10 ms", "10-100 ms", "0.1-1 s", "1-10 s", "> 10 s")
    counts = {row["range"]: row["count"] for row in told.sync_ms}
    sync = [(name, float(counts.get(name, 0)), f"{counts.get(name, 0)}") for name in order if counts]
    columns = {
        "AT": lambda r: clock(r["at_ms"]), "GROUP": _get("group"), "GENERATION": _get("generation"),
        "CAUSE": lambda r: ", ".join(r["causes"]), "SOURCE": _source, "DETAIL": _get("cause_detail"),
        "MEMBERS": lambda r: f"{r['members_before']} to {r['members_after']}", "SYNC MS": _get("sync_ms"),
        "COMMIT GAP MS": _get("commit_gap_ms"), "MOVED": _get("partitions_moved"),
    }  # fmt: skip
    return _section(
        "Rebalances",
        "From rebalances. Causes are inferred from neighbouring records unless the source is the event log; a log does "
        "not tell when a rebalance began. SYNC MS is how long members took from JoinGroup to SyncGroup, COMMIT GAP MS "
        "the time between the last commit before and the first one after. The most restless groups are drawn.",
        lanes(rows, COLOURS), legend({name: COLOURS.get(name, "#b0b0b0") for name in sorted(used)}),
        "<h3>Causes</h3>", bars(causes, colours=COLOURS), "<h3>Time from JoinGroup to SyncGroup</h3>", bars(sync),
        "<h3>The latest</h3>", table(columns, reversed(told.rebalances[-100:]), "No group rebalanced."),
    )  # fmt: skip


def _members(told: Told) -> str:
    end = told.last_ms or max((row["from_ts"] for row in told.sessions), default=0)
    drawn: list[tuple[str, list[Dot | Bar]]] = []
    for row in told.sessions:
        to = row["to_ts"] if row["to_ts"] is not None else max(end, row["from_ts"])
        why = row["end_reason"] or "still a member"
        tip = f"{row['member_id']} on {row['host']}: {clock(row['from_ts'])} to {clock(to)}, {why}"
        name = f"{row['group']} / {row['instance_id'] or row['member_id']}"
        drawn.append((name, [Bar(row["from_ts"], to, row["end_reason"] or "here", tip)]))
    used = {row["end_reason"] or "here" for row in told.sessions}
    colours = {**COLOURS, "here": "#9bbcdc"}
    sticky = [
        (row["group"], row["stickiness"], f"{row['stickiness']:.0%} of {row['common']} kept") for row in told.stickiness
    ]
    return _section(
        "Members",
        "From member_sessions, for the most restless groups; the colour says how a membership ended. Below it "
        "stickiness: of the partitions with an owner before and after a rebalance, the share kept (worst groups).",
        lanes(drawn, colours), legend({name: colours.get(name, "#b0b0b0") for name in sorted(used)}),
        "<h3>Stickiness</h3>", bars(sticky, most=1.0),
    )  # fmt: skip


def _trouble(told: Told) -> str:
    columns = {
        "GROUP": _get("group"), "TOPIC": _get("topic"), "PARTITION": _get("partition"), "STATUS": _get("status"),
        "WORST REWIND": _get("worst_rewind"), "LAG AT LEAST": _get("lag_at_least"), "QUIET S": _get("quiet_s"),
        "QUIET TOO LONG": lambda r: "yes" if r["quiet_too_long"] else "no",
        "LAG TREND": lambda r: None if r["lag_trend"] is None else f"{r['lag_trend']:+.1f} per commit",
    }  # fmt: skip
    how = (
        "From lag_status: STATUS is Burrow's. WORST REWIND looks at the whole window, QUIET TOO LONG measures silence "
        "against the partition's own rhythm."
    )
    return _section("Rewinds, stalls, silence", how, table(columns, told.trouble, "Nothing to worry about."))


def _partitions(told: Told) -> str:
    columns = {
        "GROUP": _get("group"), "TOPIC": _get("topic"), "PARTITION": _get("partition"),
        "CURRENT-OFFSET": _get("current_offset"), "LOG-END-OFFSET": _get("log_end_offset"), "LAG": _get("lag"),
        "CONSUMER-ID": _get("member_id"), "HOST": _get("client_host"), "CLIENT-ID": _get("client_id"),
        "STATUS": _get("status"), "END FROM": _get("leo_source"),
    }  # fmt: skip
    shown = f"the {len(told.partitions)} worst of {told.partitions_total:,}"
    how = f"From lag_status, {shown}. END FROM max_committed: a lower bound, the highest commit of any group."
    return _section("Partitions", how, table(columns, told.partitions, "No offsets are committed."))


def _health(told: Told) -> str:
    columns = {
        "LOG": _get("log_dir"), "BYTES": _get("bytes"), "SEGMENTS": _get("segments"), "COMMITS": _get("commits"),
        "LIVE": _get("live_commits"), "TOMBSTONES": _get("tombstones"), "ABORTED": _get("aborted_commits"),
        "OPEN TXNS": _get("open_txns"), "OLDEST OPEN": _since("oldest_open_txn_ts"),
        "LOAD S": lambda r: f"{r['replay_s']:.2f}",
    }  # fmt: skip
    dead = [
        (r["log_dir"], r["dead_ratio"], f"{r['dead_ratio']:.0%} dead")
        for r in told.health
        if r["dead_ratio"] is not None
    ]
    unknown = {"KEY TYPE": lambda r: str(r["key_version"]), "WHY": _get("reason"), "RECORDS": _get("count")}
    return _section(
        "The logs themselves",
        "From log_health: the share of offset commits that compaction would remove, transactions without an end, and "
        "an estimate of the seconds that a coordinator needs to load a log at 50 MiB a second. Records that could not "
        "be decoded are in unknown_records.",
        bars(dead, most=1.0), table(columns, told.health, "No log was read."),
        "<h3>Records that were not decoded</h3>", table(unknown, told.unknown, "None."),
    )  # fmt: skip
