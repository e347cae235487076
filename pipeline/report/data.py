"""The rows that the report shows, read from the published tables without Spark, and bounded.

The page stays readable, and small, with 10,000 groups: the worst or busiest are shown, and the rest is counted.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import duckdb
import msgspec

from pipeline import manifest, published
from pipeline.decode.files import Place

Rows = list[dict[str, Any]]
Partition = tuple[str, int]  # topic, number
GROUPS, PARTITIONS, STORIES, LISTED = 200, 200, 6, 60
POINTS = 240  # of a line
DRAWN_PARTITIONS, DRAWN_SESSIONS, DRAWN_REBALANCES = 12, 40, 400  # of a group's timeline


class Story(msgspec.Struct):
    """The history of one group."""

    group: str
    lag: Rows = []  # topic, partition, ts, lag
    produced: Rows = []  # ts, per_s: records that its topics took in
    consumed: Rows = []  # ts, per_s: offsets that it committed
    rebalances: Rows = []
    sessions: Rows = []
    owners: Rows = []  # topic, partition, from_ts, to_ts, owner


class ReportData(msgspec.Struct):
    """Rows for each part of the page; the totals count what was left out as well."""

    paths: list[str] = []
    logs: dict[str, int] = {}  # log -> next offset
    first_ms: int | None = None
    last_ms: int | None = None
    groups_total: int = 0
    partitions_total: int = 0
    rebalances_total: int = 0
    problems_total: int = 0
    statuses: dict[str, int] = {}
    groups: Rows = []
    stories: list[Story] = []
    partitions: Rows = []
    causes: Rows = []
    sync_ms: Rows = []
    rebalances: Rows = []
    stickiness: Rows = []
    trouble: Rows = []
    restless: Rows = []  # groups that rebalance all the time
    queues: Rows = []  # share groups, and what stands in their partitions
    given_up: Rows = []  # records of share groups that were archived
    health: Rows = []
    problems: Rows = []
    unknown: Rows = []


def collect(out: Place) -> ReportData:
    """Read the tables of the current build."""
    known, snapshot = manifest.load(out), published.load(out)
    with duckdb.connect() as db:
        for name in snapshot.tables:
            db.register(name, published.dataset(out, snapshot, name))
        db.execute(SEVERITIES)
        data = ReportData(
            paths=list(known.paths), logs={log: position.next_offset for log, position in known.logs.items()}
        )
        queries = QUERIES | (SHARE_QUERIES if "share_partitions" in snapshot.tables else {})
        for name, query in queries.items():
            setattr(data, name, rows(db, query))
        for name, query in TOTALS.items():
            setattr(data, name, rows(db, query)[0]["n"])
        data.statuses = {row["status"]: row["n"] for row in rows(db, STATUSES)}
        data.stories = [_story(db, row["group"]) for row in rows(db, INTERESTING)]
        return data


def rows(db: duckdb.DuckDBPyConnection, query: str, *values: object) -> Rows:
    """Return all rows of a query as dicts."""
    found = db.execute(query, list(values))
    names = [column[0] for column in found.description or ()]
    return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


SEVERITIES = """
CREATE MACRO severity(status) AS
    CASE status WHEN 'OK' THEN 0 WHEN 'UNKNOWN' THEN 0.5 WHEN 'WARN' THEN 1 WHEN 'RESTLESS' THEN 1 ELSE 2 END
"""
RESTLESS_MIN = 5  # rebalances within RESTLESS_MS: a deployment of a few members makes fewer
RESTLESS_MS = 60_000
# How often a group has rebalanced in its busiest minute.
BUSIEST_SQL = f"""
SELECT "group", max(within) AS busiest FROM (
    SELECT "group", count(*) OVER (
        PARTITION BY "group" ORDER BY at_ms RANGE BETWEEN {RESTLESS_MS} PRECEDING AND CURRENT ROW
    ) AS within FROM rebalances
) GROUP BY "group"
"""
GROUPS_SQL = f"""
SELECT coalesce(s."group", l."group") AS "group", s.type, s.generation, s.protocol, s.members, s.empty_since,
    CASE WHEN severity(coalesce(l.status, 'OK')) < 1 AND b.busiest >= {RESTLESS_MIN} THEN 'RESTLESS'
        ELSE coalesce(l.status, 'OK') END AS status, l.total_lag, l.max_lag, l.partitions
FROM group_state s FULL JOIN group_status l ON s."group" = l."group"
LEFT JOIN ({BUSIEST_SQL}) b ON b."group" = coalesce(s."group", l."group")
"""
OWNERS_SQL = """
SELECT DISTINCT ON (m."group", owned.topic, owned.number)
    m."group", owned.topic, owned.number AS partition, m.member_id, m.client_id, m.client_host
FROM (
    SELECT "group", member.member_id, member.client_id, member.client_host,
        unnest(map_entries(member.assignment)) AS entry
    FROM (
        SELECT "group", unnest(members) AS member
        FROM (SELECT "group", arg_max(members, log_offset) AS members FROM group_metadata GROUP BY "group")
    )
) m, LATERAL (SELECT m.entry.key AS topic, unnest(m.entry.value) AS number) AS owned
UNION ALL
SELECT DISTINCT ON (now."group", names.topic, now.number)
    now."group", names.topic, now.number AS partition, now.member_id, s.client_id, s.host AS client_host
FROM (
    SELECT "group", member_id, own.topic_id, unnest(own.partitions) AS number
    FROM (
        SELECT "group", member_id,
            unnest(list_concat(value.assigned_partitions, value.partitions_pending_revocation)) AS own
        FROM (
            SELECT "group", member_id, from_json(payload, '{
                "assigned_partitions": [{"topic_id": "VARCHAR", "partitions": ["INTEGER"]}],
                "partitions_pending_revocation": [{"topic_id": "VARCHAR", "partitions": ["INTEGER"]}]
            }') AS value
            FROM (
                SELECT "group", member_id, arg_max(payload, log_offset) AS payload
                FROM new_group_records WHERE type = 'ConsumerGroupCurrentMemberAssignment' GROUP BY ALL
            )
        )
    )
) now
JOIN (SELECT DISTINCT topic_id, topic FROM offset_commits WHERE topic_id IS NOT NULL) names USING (topic_id)
LEFT JOIN member_sessions s ON s."group" = now."group" AND s.member_id = now.member_id AND s.to_ts IS NULL
"""
# With a column that earlier releases have not built.
LAG_STATUS_SQL = "SELECT * FROM lag_status UNION ALL BY NAME SELECT NULL::BIGINT AS beyond_end WHERE false"
QUERIES = {
    "groups": f"""
        SELECT * FROM ({GROUPS_SQL}) ORDER BY severity(status) DESC, total_lag DESC NULLS LAST, "group" LIMIT {GROUPS}
    """,
    "partitions": f"""
        WITH owners AS ({OWNERS_SQL}),
        worst AS (
            SELECT * FROM ({LAG_STATUS_SQL})
            ORDER BY severity(status) DESC, lag_at_least DESC NULLS LAST, "group", topic, partition LIMIT {PARTITIONS}
        )
        SELECT worst.*, owners.member_id, owners.client_id, owners.client_host
        FROM worst LEFT JOIN owners USING ("group", topic, partition)
        ORDER BY severity(status) DESC, lag_at_least DESC NULLS LAST, "group", topic, partition
    """,
    "trouble": f"""
        SELECT * FROM ({LAG_STATUS_SQL})
        WHERE severity(status) >= 1 OR worst_rewind > 0 OR beyond_end > 0 OR (quiet_too_long AND lag_at_least > 0)
        ORDER BY severity(status) DESC, worst_rewind DESC, "group", topic, partition LIMIT {LISTED}
    """,
    "restless": f"""
        SELECT r."group", b.busiest, count(*) AS rebalances, mode(r.cause) AS cause
        FROM rebalances r JOIN ({BUSIEST_SQL}) b USING ("group") WHERE b.busiest >= {RESTLESS_MIN}
        GROUP BY ALL ORDER BY b.busiest DESC, rebalances DESC, r."group" LIMIT {LISTED}
    """,
    "causes": "SELECT cause, cause_source, count(*) AS count FROM rebalances GROUP BY ALL ORDER BY count DESC, cause",
    "sync_ms": """
        SELECT CASE WHEN sync_ms < 10 THEN '< 10 ms' WHEN sync_ms < 100 THEN '10-100 ms'
            WHEN sync_ms < 1000 THEN '0.1-1 s' WHEN sync_ms < 10000 THEN '1-10 s' ELSE '> 10 s' END AS range,
            count(*) AS count
        FROM rebalances WHERE sync_ms IS NOT NULL GROUP BY ALL
    """,
    "rebalances": f'SELECT * FROM rebalances ORDER BY at_ms DESC, "group", log_offset DESC LIMIT {LISTED}',
    "stickiness": f"""
        SELECT * FROM stickiness WHERE common > 0 ORDER BY stickiness, "group" LIMIT {LISTED // 2}
    """,
    "health": f"SELECT * FROM log_health ORDER BY bytes DESC NULLS LAST, log_dir LIMIT {LISTED}",
    "problems": f"SELECT * FROM log_problems ORDER BY severity DESC, log_dir, pos LIMIT {LISTED}",
    "unknown": "SELECT key_version, reason, count(*) AS count FROM unknown_records GROUP BY ALL ORDER BY key_version",
}
SHARE_QUERIES = {  # of tables that earlier releases have not built
    "queues": f"""
        SELECT p."group", s.members, count(*) AS partitions, sum(p.available)::BIGINT AS available,
            sum(p.acknowledged)::BIGINT AS acknowledged, max(p.max_delivery_count) AS max_delivery_count,
            any_value(a.records) AS archived, max(p.record_ts) AS last_ts
        FROM share_partitions p LEFT JOIN group_state s ON s."group" = p."group" LEFT JOIN (
            SELECT "group", sum(records)::BIGINT AS records FROM archived_ranges GROUP BY "group"
        ) a ON a."group" = p."group"
        GROUP BY p."group", s.members ORDER BY archived DESC NULLS LAST, available DESC, p."group" LIMIT {GROUPS}
    """,
    "given_up": f"""
        SELECT * FROM archived_ranges ORDER BY at_ms DESC, "group", topic_id, partition, first_offset LIMIT {LISTED}
    """,
}
TOTALS = {
    "groups_total": f"SELECT count(*) AS n FROM ({GROUPS_SQL})",
    "partitions_total": "SELECT count(*) AS n FROM lag_status",
    "rebalances_total": "SELECT count(*) AS n FROM rebalances",
    "problems_total": "SELECT count(*) AS n FROM log_problems WHERE severity = 'problem'",
    "first_ms": "SELECT min(record_ts) AS n FROM offset_commits",
    "last_ms": "SELECT max(record_ts) AS n FROM offset_commits",
}
STATUSES = f"SELECT status, count(*) AS n FROM ({GROUPS_SQL}) GROUP BY status"
# Groups in trouble first, then those that rebalanced most, then those that lagged most.
INTERESTING = f"""
SELECT g."group" FROM ({GROUPS_SQL}) g
LEFT JOIN (SELECT "group", count(*) AS moves FROM rebalances GROUP BY "group") r USING ("group")
LEFT JOIN (SELECT "group", max(lag) AS lag FROM lag_history GROUP BY "group") h USING ("group")
WHERE moves > 1 OR lag > 0
ORDER BY severity(g.status) DESC, moves DESC NULLS LAST, lag DESC NULLS LAST, "group" LIMIT {STORIES}
"""
# The last lag of each of `POINTS` spans of time.
LAG_SQL = f"""
WITH mine AS (SELECT * FROM lag_history WHERE "group" = $1),
span AS (SELECT min(ts) AS first, greatest(max(ts) - min(ts), 1) AS long FROM mine),
most AS (
    SELECT topic, partition FROM mine GROUP BY ALL ORDER BY max(lag) DESC, topic, partition LIMIT {DRAWN_PARTITIONS}
)
SELECT topic, partition, max(ts) AS ts, arg_max(lag, ts) AS lag
FROM mine JOIN most USING (topic, partition), span
GROUP BY topic, partition, (ts - span.first) * {POINTS - 1} // span.long ORDER BY topic, partition, ts
"""
# How far a position went, by spans of time of at least a second: the sum over partitions of its last value in each span
# less that in the one before, by the seconds between. Doubles, since a client may commit any 64 bits.
RATE_SQL = f"""
WITH span AS (
    SELECT min(record_ts) AS first, greatest((max(record_ts) - min(record_ts)) // {POINTS // 4}, 1000) AS width
    FROM offset_commits WHERE "group" = $1 AND effective
),
seen AS (%s),
steps AS (
    SELECT topic, partition, (ts - span.first) // span.width AS bucket, max(reached)::DOUBLE AS reached FROM seen, span
    WHERE ts >= span.first GROUP BY ALL
),
advances AS (
    SELECT bucket,
        greatest(reached - lag(reached) OVER (PARTITION BY topic, partition ORDER BY bucket), 0) AS advance
    FROM steps
)
SELECT span.first + bucket * span.width + span.width // 2 AS ts,
    sum(coalesce(advance, 0)) * 1000.0 / span.width AS per_s
FROM advances, span GROUP BY bucket, span.first, span.width ORDER BY ts
"""
COMMITTED_SQL = """
    SELECT topic, partition, record_ts AS ts, committed_offset AS reached FROM offset_commits
    WHERE "group" = $1 AND effective AND NOT is_tombstone
"""
ENDED_SQL = """
    SELECT topic, partition, ts, leo AS reached FROM log_end_offsets
    JOIN (SELECT DISTINCT topic, partition FROM lag_history WHERE "group" = $1) USING (topic, partition)
    WHERE source <> 'max_committed'
"""

# The latest records of members' assignments, and the last one of each member however old it is.
ASSIGNMENTS_SQL = f"""
SELECT record_ts, member_id, is_tombstone, payload FROM new_group_records
WHERE "group" = $1 AND type = 'ConsumerGroupCurrentMemberAssignment'
QUALIFY row_number() OVER (ORDER BY log_offset DESC) <= {DRAWN_REBALANCES}
    OR row_number() OVER (PARTITION BY member_id ORDER BY log_offset DESC) = 1
ORDER BY log_offset
"""


def _story(db: duckdb.DuckDBPyConnection, group: str) -> Story:
    metadata = rows(
        db,
        'SELECT record_ts, is_tombstone, members FROM group_metadata WHERE "group" = $1 ORDER BY log_offset DESC '
        f"LIMIT {DRAWN_REBALANCES}",
        group,
    )
    assignments = rows(db, ASSIGNMENTS_SQL, group)
    named = rows(db, "SELECT DISTINCT topic_id, topic FROM offset_commits WHERE topic_id IS NOT NULL")
    names = {row["topic_id"]: row["topic"] for row in named}
    return Story(
        group,
        lag=rows(db, LAG_SQL, group),
        produced=rows(db, RATE_SQL % ENDED_SQL, group),
        consumed=rows(db, RATE_SQL % COMMITTED_SQL, group),
        rebalances=rows(
            db,
            'SELECT * FROM rebalances WHERE "group" = $1 ORDER BY at_ms DESC, log_offset DESC '
            f"LIMIT {DRAWN_REBALANCES}",
            group,
        )[::-1],
        sessions=rows(
            db,
            f'SELECT * FROM member_sessions WHERE "group" = $1 ORDER BY from_ts DESC LIMIT {DRAWN_SESSIONS}',
            group,
        )[::-1],
        owners=ownership(metadata[::-1]) + consumer_ownership(assignments, names),
    )


def ownership(metadata: Rows) -> Rows:
    """Return from when to when a member owned each partition, by a classic group's records in order."""
    return _spans(
        (
            record["record_ts"],
            {
                (topic, number): member["member_id"]
                for member in record["members"] or ()
                for topic, numbers in (member["assignment"] or {}).items()
                for number in numbers or ()
            },
        )
        for record in metadata
    )


def consumer_ownership(records: Rows, names: Mapping[str, str]) -> Rows:
    """Return the same of a consumer group (KIP-848), by the records of its members' current assignments in order.

    The records name topics by id. `names` has the names of those that the log knows; others go by their id.
    """
    return _spans(_owners_over_time(records, names))


def _owners_over_time(records: Rows, names: Mapping[str, str]) -> Iterator[tuple[int, dict[Partition, str]]]:
    owned: dict[str, set[Partition]] = {}
    for record in records:
        value = {} if record["is_tombstone"] else json.loads(record["payload"])
        owned[record["member_id"]] = {
            (names.get(one["topic_id"], one["topic_id"]), number)
            for field in ("assigned_partitions", "partitions_pending_revocation")
            for one in value.get(field, ())
            for number in one["partitions"]
        }
        yield record["record_ts"], {place: member for member, places in owned.items() for place in places}


def _spans(states: Iterable[tuple[int, Mapping[Partition, str]]]) -> Rows:
    """Return a row for each time that a partition had an owner; `to_ts` is None if it still has."""
    spans: Rows = []
    current: dict[Partition, dict[str, Any]] = {}
    for ts, owners in states:
        for place, span in list(current.items()):
            if owners.get(place) != span["owner"]:
                span["to_ts"] = ts
                del current[place]
        for (topic, number), owner in owners.items():
            if (topic, number) not in current:
                span = {"topic": topic, "partition": number, "from_ts": ts, "to_ts": None, "owner": owner}
                current[topic, number] = span
                spans.append(span)
    drawn = sorted({(span["topic"], span["partition"]) for span in spans})[:DRAWN_PARTITIONS]
    return [span for span in spans if (span["topic"], span["partition"]) in drawn]
