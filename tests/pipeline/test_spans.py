"""Where logs are cut into spans: every byte is read once, each span begins at a batch, whatever an index says."""

import struct
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from pipeline.decode import plain
from pipeline.decode.layout import TOPIC, log_dirs, spans
from pipeline.decode.rows import Options, SpanDecoder, read_table
from pipeline.synth import Writer, commit

INDEX_BYTES = 4096  # between two entries of an index, at least
LARGEST = 1500  # bytes of a batch, at most


def damage_index(dice: Random, file: Path) -> bool:
    """Leave an index as it is, or as nobody may trust it; whether it is whole."""
    data = file.read_bytes()
    match dice.choice(["whole", "whole", "missing", "empty", "cut off", "zeros", "other positions", "other offsets"]):
        case "missing":
            file.unlink()
        case "empty":
            file.write_bytes(b"")
        case "cut off":
            file.write_bytes(data[: dice.randrange(len(data) + 1)])
        case "zeros":  # to which a broker extends the index of a segment that is written to
            file.write_bytes(data + bytes(80))
            return True
        case "other positions":  # of a segment that was cleaned since, or is shorter
            file.write_bytes(
                b"".join(
                    struct.pack(">ii", relative, position + dice.choice([-300, 1, 61, 300, 1 << 20]))
                    for relative, position in struct.iter_unpack(">ii", data)
                )
            )
        case "other offsets":
            file.write_bytes(
                b"".join(
                    struct.pack(">ii", max(0, relative - dice.randrange(20)), position)
                    for relative, position in struct.iter_unpack(">ii", data)
                )
            )
        case _:
            return True
    return False


@pytest.mark.parametrize("seed", range(14))
def test_spans_are_all_of_a_log_and_each_begins_at_a_batch(seed: int, tmp_path: Path) -> None:
    dice = Random(seed)
    writer = Writer(
        tmp_path / f"{TOPIC}-0", segment_bytes=dice.choice([9_000, 30_000]), first_offset=dice.choice([0, 700])
    )
    first_offset = writer.next_offset
    for _ in range(60):
        metadata = "m" * dice.randrange(LARGEST // 3 - 100)
        writer.append([commit(("g", "t", n), n, 1000, 3, metadata) for n in range(dice.randrange(1, 4))])
    if dice.random() < 0.3:
        (writer.directory / f"{writer.next_offset:020d}.log").touch()  # it was rolled just now
    whole = {file.stem: damage_index(dice, file) for file in sorted(writer.directory.glob("*.index"))}
    split_bytes = dice.choice([1, 4_000, 6_000, 14_000, 1 << 20])

    (log,) = log_dirs([str(tmp_path)])
    cut = spans(log, split_bytes)
    files = sorted(writer.directory.glob("*.log"))
    for file in files:
        of_file = [span for span in cut if span.segment.path == log.path + f"/{file.name}"]
        begins = {batch.pos: batch.base_offset for batch in plain.batches(file.read_bytes())} | {0: int(file.stem)}
        assert [(0, 0), *((span.start, span.end) for span in of_file)][-1][1] == file.stat().st_size
        assert all(one.end == later.start for one, later in pairwise(of_file))
        assert [span.floor for span in of_file] == [begins[span.start] for span in of_file]
        if whole.get(file.stem):
            assert all(split_bytes <= span.end - span.start for span in of_file[:-1])
            assert all(span.end - span.start < split_bytes + INDEX_BYTES + 2 * LARGEST for span in of_file)
    assert [span.start for span in cut].count(0) == len(files)
    assert [span.ceiling for span in cut] == [*(span.floor for span in cut[1:]), None]
    assert [span.active for span in cut] == [span.segment.path.endswith(files[-1].name) for span in cut]
    for options in (Options(chunk_bytes=2_000), Options()):
        assert read_table(cut, "log_problems", options).num_rows == 0
        read = []
        for span in cut:
            decoder = SpanDecoder(span, options)
            read += [
                offset
                for rows in decoder
                if rows.table == "offset_commits"
                for offset in rows.batch["log_offset"].to_pylist()
            ]
            assert decoder.end_pos == span.end, "where reading goes on"
            assert decoder.next_offset == (read[-1] + 1 if span.end > span.start else span.floor)
        assert read == list(range(first_offset, writer.next_offset))
