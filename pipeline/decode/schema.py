"""The raw tables, once: Arrow schemas, from which Spark's DDL and the documentation are derived.

Every table names where a row came from: `log_dir` (the directory as it was given), `log_partition` (the number at the
end of its name) and, for records, `log_offset`. Times are milliseconds since the epoch.
"""

import pyarrow as pa

BATCHES = pa.schema(
    [
        ("log_dir", pa.string()),
        ("log_partition", pa.int32()),
        ("segment_base", pa.int64()),
        ("pos", pa.int64()),  # byte position in its file
        ("size", pa.int32()),  # bytes on disk, header included
        ("base_offset", pa.int64()),
        ("last_offset", pa.int64()),
        ("records", pa.int32()),
        ("leader_epoch", pa.int32()),
        ("magic", pa.int8()),
        ("codec", pa.int8()),  # 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd
        ("is_txn", pa.bool_()),
        ("is_control", pa.bool_()),
        ("control_type", pa.int16()),  # 0 abort, 1 commit, null for data
        ("coordinator_epoch", pa.int32()),
        ("producer_id", pa.int64()),
        ("producer_epoch", pa.int16()),
        ("base_sequence", pa.int32()),
        ("base_ts", pa.int64()),  # with `has_horizon` this is the delete horizon, not a time of writing
        ("max_ts", pa.int64()),
        ("has_horizon", pa.bool_()),
    ]
)

OFFSET_COMMITS = pa.schema(
    [
        ("log_dir", pa.string()),
        ("log_partition", pa.int32()),
        ("log_offset", pa.int64()),
        ("batch_base", pa.int64()),
        ("leader_epoch_of_log", pa.int32()),
        ("record_ts", pa.int64()),
        ("producer_id", pa.int64()),
        ("is_txn", pa.bool_()),
        ("group", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("key_version", pa.int16()),
        ("value_version", pa.int16()),
        ("is_tombstone", pa.bool_()),
        ("undecodable", pa.bool_()),
        ("committed_offset", pa.int64()),
        ("leader_epoch", pa.int32()),
        ("metadata", pa.string()),
        ("commit_ts", pa.int64()),
        ("expire_ts", pa.int64()),
        ("topic_id", pa.string()),  # hex of 16 bytes; Kafka 4.1 and later
    ]
)

GROUP_RECORDS = pa.schema(
    [
        ("log_dir", pa.string()),
        ("log_partition", pa.int32()),
        ("log_offset", pa.int64()),
        ("leader_epoch_of_log", pa.int32()),
        ("record_ts", pa.int64()),
        ("key_version", pa.int16()),
        ("type", pa.string()),
        ("group", pa.string()),
        ("member_id", pa.string()),
        ("epoch", pa.int32()),
        ("value_version", pa.int16()),
        ("is_tombstone", pa.bool_()),
        ("payload", pa.string()),  # JSON of key and value, field names as in `coordinator.core.records`
    ]
)

STATE_BATCHES = pa.list_(
    pa.struct(
        [
            ("first_offset", pa.int64()),
            ("last_offset", pa.int64()),
            ("delivery_state", pa.int8()),  # 0 available, 2 acknowledged, 4 archived; what is acquired is in no log
            ("delivery_count", pa.int16()),
        ]
    )
)

SHARE_RECORDS = pa.schema(
    [
        ("log_dir", pa.string()),
        ("log_partition", pa.int32()),
        ("log_offset", pa.int64()),
        ("leader_epoch_of_log", pa.int32()),
        ("record_ts", pa.int64()),
        ("key_version", pa.int16()),  # 0 snapshot, 1 update
        ("type", pa.string()),
        ("group", pa.string()),
        ("topic_id", pa.string()),  # hex of 16 bytes
        ("partition", pa.int32()),
        ("value_version", pa.int16()),
        ("is_tombstone", pa.bool_()),
        ("snapshot_epoch", pa.int32()),
        ("state_epoch", pa.int32()),
        ("leader_epoch", pa.int32()),
        ("start_offset", pa.int64()),
        ("delivery_complete_count", pa.int32()),
        ("create_ts", pa.int64()),
        ("write_ts", pa.int64()),
        ("batches", STATE_BATCHES),
    ]
)

UNKNOWN_RECORDS = pa.schema(
    [
        ("log_dir", pa.string()),
        ("log_partition", pa.int32()),
        ("log_offset", pa.int64()),
        ("record_ts", pa.int64()),
        ("key_version", pa.int16()),
        ("value_version", pa.int16()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("reason", pa.string()),
    ]
)

LOG_PROBLEMS = pa.schema(
    [
        ("log_dir", pa.string()),
        ("log_partition", pa.int32()),
        ("segment_base", pa.int64()),
        ("pos", pa.int64()),
        ("length", pa.int64()),
        ("kind", pa.string()),
        ("severity", pa.string()),  # info: nothing is lost; problem: rows are missing or doubtful
        ("from_offset", pa.int64()),
        ("to_offset", pa.int64()),
        ("detail", pa.string()),
    ]
)

TABLES = {
    "batches": BATCHES,
    "offset_commits": OFFSET_COMMITS,
    "group_records": GROUP_RECORDS,
    "share_records": SHARE_RECORDS,
    "unknown_records": UNKNOWN_RECORDS,
    "log_problems": LOG_PROBLEMS,
}

_SPARK = {
    pa.string(): "string",
    pa.binary(): "binary",
    pa.bool_(): "boolean",
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    STATE_BATCHES: (
        "array<struct<first_offset:bigint,last_offset:bigint,delivery_state:tinyint,delivery_count:smallint>>"
    ),
}


def ddl(schema: pa.Schema) -> str:
    """Return the same schema as Spark writes it."""
    return ", ".join(f"`{field.name}` {spark_type(field)}" for field in schema)


def spark_type(field: pa.Field) -> str:
    """Return the type of a column as Spark writes it."""
    return _SPARK[field.type]
