"""The codec against a hand-written twin, the limit, and against construct's interpretation, in one run.

    python -m benchmarks.codec

Times are the best of many rounds in which the contestants take turns, so that a busy machine hits all of them; read
the ratios. Below: what importing costs, and the longest that any frame with a lying length took to be refused.
"""

import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from benchmarks import codec_twin
from protocol import interpret
from protocol.apis import APIS
from protocol.codec import decode_request, encode_request, encode_response
from protocol.errors import ProtocolError
from protocol.header import Response, request_frame, response_frame
from protocol.messages import consumer_group_heartbeat as heartbeat_848
from protocol.messages import heartbeat, offset_commit, offset_fetch
from tests.protocol.hostile import cases
from tests.protocol.targets import REQUESTS

MEMBER = "consumer-1-f4d1c7e2-9f0b-4b0e-8a51-0d8a4d8f3a31"
Work = Callable[[], Any]


def both(*works: Work) -> Any:
    """Do one thing after the other, as a server does with a request and its answer."""
    return tuple([work() for work in works])


def best(works: Sequence[Work], seconds: float = 0.7) -> list[float]:
    """The shortest time of each, in microseconds; they take turns."""
    times = [float("inf")] * len(works)
    loops = []
    for work in works:
        work()
        started = time.perf_counter()
        work()
        loops.append(max(1, int(0.002 / (time.perf_counter() - started))))
    end = time.perf_counter() + seconds * len(works)
    while time.perf_counter() < end:
        for index, work in enumerate(works):
            turns = range(loops[index])
            started = time.perf_counter()
            for _ in turns:
                work()
            times[index] = min(times[index], (time.perf_counter() - started) / loops[index])
    return [1e6 * value for value in times]


def request(key: int, version: int, message: Any) -> bytes:
    return encode_request(key, version, 7, "consumer-1", message)[4:]


def commit(partitions: int) -> bytes:
    told = tuple(
        offset_commit.OffsetCommitRequestPartition(index, 1_000_000 + index, 4, -1, "") for index in range(partitions)
    )
    topics = (offset_commit.OffsetCommitRequestTopic("orders", bytes(16), told),)
    return request(8, 8, offset_commit.OffsetCommitRequest("group-1", 5, MEMBER, None, -1, topics))


def commit_request(partitions: int) -> Any:
    told = tuple(
        offset_commit.OffsetCommitResponsePartition(partition_index=index, error_code=0) for index in range(partitions)
    )
    return offset_commit.OffsetCommitResponse(
        topics=(offset_commit.OffsetCommitResponseTopic(name="orders", partitions=told),)
    )


def fetch(partitions: int) -> bytes:
    topics = (offset_fetch.OffsetFetchRequestTopics(name="orders", partition_indexes=tuple(range(partitions))),)
    groups = (offset_fetch.OffsetFetchRequestGroup(group_id="group-1", topics=topics),)
    return request(9, 8, offset_fetch.OffsetFetchRequest(groups=groups))


def fetch_response(partitions: int) -> Any:
    told = tuple(
        offset_fetch.OffsetFetchResponsePartitions(index, 1_000_000 + index, 4, "") for index in range(partitions)
    )
    topics = (offset_fetch.OffsetFetchResponseTopics(name="orders", partitions=told),)
    return offset_fetch.OffsetFetchResponse(groups=(offset_fetch.OffsetFetchResponseGroup("group-1", topics),))


def measure_interpreted(frame: bytes) -> Any:
    key, version = int.from_bytes(frame[:2]), int.from_bytes(frame[2:4])
    return partial(interpret.parse, request_frame(APIS[key], version), frame)


def measure_built(key: int, version: int, message: Any) -> Any:
    return partial(interpret.build, response_frame(APIS[key], version), Response(7, message))


def row(name: str, ours: Work, twin: Work | None, slow: Work) -> None:
    works = [work for work in (ours, twin, slow) if work]
    times = best(works)
    limit = f"{times[1]:9.2f}{times[0] / times[1]:8.2f}" if twin else f"{'':17}"
    print(f"{name:48}{times[0]:9.2f}{limit}{times[-1]:10.1f}{times[-1] / times[0]:8.1f}")


def codecs() -> None:
    print(f"{'microseconds':48}{'ours':>9}{'twin':>9}{'x twin':>8}{'construct':>10}{'x ours':>8}")
    frame, answer = request(12, 4, heartbeat.HeartbeatRequest("group-1", 5, MEMBER)), heartbeat.HeartbeatResponse()
    row(
        "Heartbeat v4: read the request, write the answer",
        partial(both, partial(decode_request, frame), partial(encode_response, 12, 4, 7, answer)),
        partial(
            both,
            partial(codec_twin.decode_heartbeat_v4, frame),
            partial(codec_twin.encode_heartbeat_v4, 7, answer),
        ),
        partial(both, measure_interpreted(frame), measure_built(12, 4, answer)),
    )
    beat = heartbeat_848.ConsumerGroupHeartbeatRequest(group_id="group-1", member_id=MEMBER, member_epoch=5)
    frame, told = request(68, 1, beat), heartbeat_848.ConsumerGroupHeartbeatResponse(member_epoch=5)
    row(
        "ConsumerGroupHeartbeat v1: both, nothing new",
        partial(both, partial(decode_request, frame), partial(encode_response, 68, 1, 7, told)),
        None,
        partial(both, measure_interpreted(frame), measure_built(68, 1, told)),
    )
    for count in (10, 100, 500):
        frame = commit(count)
        assert codec_twin.decode_offset_commit_v8(frame) == decode_request(frame)
        row(
            f"OffsetCommit v8, {count} partitions: read the request",
            partial(decode_request, frame),
            partial(codec_twin.decode_offset_commit_v8, frame),
            measure_interpreted(frame),
        )
        row(
            f"OffsetCommit v8, {count} partitions: write the answer",
            partial(encode_response, 8, 8, 7, commit_request(count)),
            None,
            measure_built(8, 8, commit_request(count)),
        )
    for count in (10, 100, 500):
        row(
            f"OffsetFetch v8, {count} partitions: both",
            partial(
                both, partial(decode_request, fetch(count)), partial(encode_response, 9, 8, 7, fetch_response(count))
            ),
            None,
            partial(both, measure_interpreted(fetch(count)), measure_built(9, 8, fetch_response(count))),
        )


def imports() -> None:
    """Start Python with nothing, with construct, with the codec, and with all messages too; they take turns.

    Counted is the processor's time of each process, which a busy machine changes less than the time on the wall.
    """
    steps = {
        "construct": "import construct",
        "construct and the codec": "import construct, protocol.codec",
        "construct, the codec and all messages": (
            "import construct, protocol.codec; [api.messages for api in protocol.codec.APIS.values()]"
        ),
    }
    times = dict.fromkeys(["nothing", *steps], float("inf"))
    for _ in range(15):
        for name, code in {"nothing": "pass", **steps}.items():
            times[name] = min(times[name], processor_ms(code))
    print("\nmilliseconds of processor time to start Python and import")
    for name, value in times.items():
        over = value - times["construct"]
        print(f"{name:48}{value:9.1f}" + (f"{over:+9.1f} over construct" if over > 0 else ""))


def processor_ms(code: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1000 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def hostile() -> None:
    """How long the longest refusal takes. Each case is tried three times: what else the machine does is not ours."""
    longest, count, total, culprit = 0.0, 0, 0.0, ""
    for target in REQUESTS:
        for path, frame in cases(target):
            took = min(measure_refusal(target.decode, frame) for _ in range(3))
            count, total = count + 1, total + took
            if took > longest:
                longest, culprit = took, f"{target} {path}"
    print(f"\n{count} frames with a lying length: {1000 * total / count:.3f} ms each to refuse,", end=" ")
    print(f"the longest {1000 * longest:.2f} ms ({culprit})")


def measure_refusal(decode: Callable[[bytes], Any], frame: bytes) -> float:
    """Seconds to refuse it."""
    started = time.perf_counter()
    try:
        decode(frame)
    except ProtocolError:
        return time.perf_counter() - started
    raise AssertionError(f"a frame with a lying length was read: {frame.hex()}")


if __name__ == "__main__":
    codecs()
    imports()
    hostile()
