"""Colours and style of the page: light and dark, and narrow screens."""

OTHER = "#9a9a9a"
CAUSES = {
    "join": "#4f9d69",
    "leave": "#4878c0",
    "timeout": "#d04a3a",
    "leave_or_timeout": "#9a7fd0",
    "static_rejoin": "#4fa3a3",
    "static_rejoin_or_join": "#7fbcbc",
    "cooperative_handover": "#7fa86f",
    "subscription_change": "#c29a20",
    "partition_count_change": "#9a6fc0",
    "topic_found": "#b48fd6",
    "partitions_initialized": "#c3a6de",
    "assignor_change": "#c0587b",
    "migrated": "#2f8f9d",
    "emptied": "#808080",
    "deleted": "#707070",
    "unknown": OTHER,
}
STYLE = """
:root{color-scheme:light dark;--ink:#1f2328;--soft:#5c636b;--paper:#ffffff;--box:#f4f5f7;--line:#dfe2e6;--faint:#eceef1;
--ok:#24784a;--warn:#8f6200;--bad:#b3301f}
@media (prefers-color-scheme:dark){:root{--ink:#e4e7eb;--soft:#a0a7b0;--paper:#15181c;--box:#20252b;--line:#363d45;
--faint:#272d34;--ok:#6cc593;--warn:#e0b050;--bad:#ff8a75}}
*{box-sizing:border-box}body{font:15px/1.5 system-ui,sans-serif;margin:0 auto;max-width:1080px;padding:24px;
color:var(--ink);background:var(--paper)}
h1{font-size:26px;margin:0}
h2{font-size:19px;margin:36px 0 8px;border-bottom:1px solid var(--line);overflow-wrap:anywhere}
h3{font-size:15px;margin:20px 0 6px}a{color:inherit}details{color:var(--soft);font-size:13px;overflow-wrap:anywhere}
nav ul{list-style:none;padding:0;margin:14px 0;display:flex;flex-wrap:wrap;gap:4px 16px;font-size:14px}
.tiles{display:flex;gap:10px;flex-wrap:wrap;margin:14px 0}
.tiles div{background:var(--box);border-radius:8px;padding:8px 14px;color:var(--soft);font-size:13px}
.tiles b{display:block;font-size:19px;color:var(--ink)}
table{border-collapse:collapse;width:100%;font-size:13px}td,th{padding:4px 9px;text-align:left;
border-bottom:1px solid var(--faint);vertical-align:top}td{max-width:340px;min-width:3em;overflow-wrap:break-word}
td:first-child{min-width:8em}
th{color:var(--soft);font-weight:600;white-space:nowrap;position:sticky;top:0;z-index:1;background:var(--paper)}
td.n,th.n{text-align:right}td.n{font-variant-numeric:tabular-nums}td.n,td.w{white-space:nowrap}td[title]{text-decoration:underline
dotted var(--soft);text-underline-offset:3px}
ul.news{padding-left:2px;list-style:none}ul.news li{margin:6px 0;overflow-wrap:anywhere}
ul.news i{display:inline-block;width:10px;height:10px;border-radius:5px;margin-right:7px}
.scroll{max-height:440px;overflow:auto;border:1px solid var(--line);border-radius:6px}
.OK{color:var(--ok)}.WARN{color:var(--warn)}.ERR,.STOP,.STALL,.REWIND,.problem{color:var(--bad);font-weight:600}
.none,.how,.UNKNOWN{color:var(--soft)}.how{font-size:13px;margin:4px 0 8px}
.narrow{display:none}svg{width:100%;height:auto;font:12px system-ui,sans-serif;display:block}
svg text{fill:var(--ink)}svg .name{text-anchor:end}svg .band{font-weight:600;font-size:12.5px;
paint-order:stroke;stroke:var(--paper);stroke-width:5px}
svg .time{fill:var(--soft)}
svg .lane{stroke:var(--line);stroke-width:.6}svg .tick{stroke:var(--faint)}
svg .mark{stroke-width:1.3;stroke-dasharray:4 3;opacity:.85}
.legend{margin:4px 0;font-size:13px}.legend span{margin-right:14px;white-space:nowrap}
.legend i{display:inline-block;width:10px;height:10px;margin-right:5px;border-radius:2px}
@media (max-width:600px){.wide{display:none}.narrow{display:block}
body{padding:14px;font-size:14px}h1{font-size:22px}.tiles div{padding:6px 10px}
.tiles b{font-size:16px}td{max-width:220px}table{width:max-content;min-width:100%}
td:first-child,th:first-child{position:sticky;left:0;background:var(--paper);min-width:5em}th:first-child{z-index:2}}
"""
