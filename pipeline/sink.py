"""Workers write the raw tables as Parquet themselves: rows that never become JVM rows cost a third.

A file is named after what was read, written under another name and then renamed, so that a task that runs twice leaves
one file. Which files count is said by the manifest alone (`pipeline/manifest.py`).
"""

import hashlib
import json
import secrets
from contextlib import suppress

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.decode.files import Store
from pipeline.decode.logs import Span
from pipeline.decode.rows import Options, SpanDecoder
from pipeline.decode.schema import TABLES
from pipeline.plan import Task

WRITTEN = pa.schema(
    [
        ("table", pa.string()),
        ("file", pa.string()),
        ("rows", pa.int64()),
        ("log", pa.string()),  # on rows of their own: a log, and the position up to which it was read
        ("position", pa.string()),
        ("place", pa.string()),  # where that log lies
    ]
)


def write(task: Task, options: Options, directory: Store) -> pa.RecordBatch:
    """Decode the task's spans into one file a table; says which files hold rows, and up to where logs were read."""
    options = msgspec.structs.replace(options, is_continued=True)
    name = hashlib.sha256(msgspec.json.encode(task)).hexdigest()[:24]
    writers: dict[str, UnfinishedFile] = {}
    ends: dict[str, dict[str, str]] = {}
    try:
        for span in task.spans:
            decoder = SpanDecoder(span, options)
            for rows in decoder:
                if rows.table not in writers:
                    writers[rows.table] = UnfinishedFile(directory, f"{rows.table}/{name}.parquet", TABLES[rows.table])
                writers[rows.table].write(rows.batch)
            if (position := _end(span, decoder)) is not None:
                ends[span.log.name] = {"position": json.dumps(position), "place": span.log.place}
        written = [{"table": table, "file": file.close(), "rows": file.rows} for table, file in sorted(writers.items())]
    finally:
        for file in writers.values():
            file.discard()
    written += [{"log": log, **end} for log, end in ends.items()]
    return pa.RecordBatch.from_pylist(written, schema=WRITTEN)


def read_file(directory: Store, path: str, columns: list[str] | None = None) -> pa.Table:
    """Return the rows of a raw file. Raises OSError, with the file's name, for one that is damaged."""
    try:
        with directory.open_input(path) as file:
            return pq.ParquetFile(file).read(columns=columns)
    except pa.ArrowInvalid as error:
        raise OSError(f"{directory.display_uri}/{path} cannot be read: {str(error).splitlines()[0]}") from None


def _end(span: Span, decoder: SpanDecoder) -> list[int] | None:
    """Return [next offset, segment, byte] if this is the last span of its log that is read now.

    A stream agreed on an end beforehand; otherwise it is the last whole batch of the newest segment.
    """
    if span.is_followed:
        return None
    if span.until_offset is None:
        return [decoder.next_offset, span.segment.base_offset, decoder.end_pos] if span.ceiling is None else None
    if span.ceiling is None or span.ceiling >= span.until_offset:
        return [span.until_offset, span.segment.base_offset, span.end]
    return None


class UnfinishedFile:
    """A Parquet file that is being written under another name, and is there as a whole once it is closed."""

    def __init__(self, directory: Store, path: str, schema: pa.Schema) -> None:
        folder, _, name = path.rpartition("/")
        directory.make(folder)
        self.directory, self.path, self.rows = directory, path, 0
        # An object store shows a file once it is closed; elsewhere two attempts must not write into one file.
        self.written = f"{folder}/.{name}.{secrets.token_hex(4)}" if directory.local else path
        self._stream = directory.open_output(self.written)
        self._writer = pq.ParquetWriter(self._stream, schema, compression="zstd")

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows."""
        self._writer.write_batch(batch)
        self.rows += batch.num_rows

    def close(self) -> str:
        """Finish the file; its path below the directory."""
        self._writer.close()
        self._stream.close()
        if self.written != self.path:
            self.directory.rename(self.written, self.path)
        self.written = ""
        return self.path

    def discard(self) -> None:
        """Remove what was never finished; nothing after `close`."""
        if not self.written:
            return
        with suppress(OSError):  # a full disk, say: what is discarded need not be whole
            self._writer.close()
        with suppress(OSError):
            self._stream.close()
        self.directory.remove(self.written)
