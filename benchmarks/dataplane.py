"""What records cost: produced and fetched again, beside an echo of the same bytes; and consumers that wait.

    python -m benchmarks.dataplane [--seconds 3] [--rounds 3] [--consumers 500] [--beside COMMAND]

The table is server CPU per megabyte of records, 100 of 1 KiB in a batch over 10 connections, one request on the way on
each: produced, then fetched. The echo is a bare `trio.serve_tcp` that sends every batch back, so it moves the same
bytes in and out once. All servers run at once and are measured in turn, some rounds; what is printed are medians. With
`--beside 'kfake -ports {port} -topics t:50'` another broker is measured as well, one that has a topic `t` like ours.
Below the table is what so many idle consumers cost that fetch with a wait of 500 ms, and how long after a produce their
answer is there: that of the server and of this driver, which shares the machine with it.
"""

import argparse
import contextlib
import functools
import selectors
import shlex
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.server import RunningServer, cpu_seconds
from protocol import record_batch
from protocol.codec import decode_response, encode_request
from protocol.framing import FrameBuffer
from protocol.messages.fetch import FetchRequest, FetchRequestPartition, FetchRequestTopic
from protocol.messages.produce import ProduceRequest, ProduceRequestPartitionData, ProduceRequestTopicData
from protocol.records import Record

CONNECTIONS, RECORDS, RECORD_BYTES = 10, 100, 1024
PRODUCE, FETCH = 0, 1
PARTITIONS = 50
WAIT_MS = 500
FRAME_BYTES_MAX = 1 << 26
MEGABYTE = 1e6


def batch(count: int = RECORDS) -> bytes:
    now_ms = int(time.time() * 1000)
    return record_batch.encode([Record(None, b"x" * RECORD_BYTES, timestamp=now_ms) for _ in range(count)])


def produce_request(partition: int, data: bytes) -> bytes:
    of_topic = ProduceRequestTopicData("t", partition_data=(ProduceRequestPartitionData(partition, data),))
    return encode_request(PRODUCE, 9, 1, "benchmark", ProduceRequest(None, 1, 1000, (of_topic,)))


@functools.cache
def fetch_request(partition: int, offset: int) -> bytes:
    asked = FetchRequestPartition(partition, fetch_offset=offset, partition_max_bytes=1 << 20)
    topics = (FetchRequestTopic("t", partitions=(asked,)),)
    return encode_request(FETCH, 12, 1, "benchmark", FetchRequest(max_wait_ms=WAIT_MS, min_bytes=1, topics=topics))


class Line:
    """A connection with one request on the way: `answered` is told of each answer and says what to send next."""

    def __init__(self, port: int, first: bytes, answered: Callable[[bytes], bytes | None]) -> None:
        self.sock = socket.create_connection(("127.0.0.1", port))
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._frames = FrameBuffer(FRAME_BYTES_MAX)
        self._answered = answered
        self.sock.sendall(first)

    def ready(self) -> None:
        self._frames.feed(self.sock.recv(1 << 20))
        for frame in self._frames:
            following = self._answered(frame)
            if following is not None:
                self.sock.sendall(following)


def drive(lines: list[Line], seconds: float, also: Callable[[float], None] = lambda now: None) -> float:
    """Let all lines go on for so long; the seconds that it took."""
    with selectors.DefaultSelector() as ready:
        for line in lines:
            ready.register(line.sock, selectors.EVENT_READ, line)
        started = time.perf_counter()
        while (now := time.perf_counter()) < started + seconds:
            also(now)
            for key, _ in ready.select(0.01):
                key.data.ready()
        return time.perf_counter() - started


def cost(
    server: RunningServer, lines: list[Line], seconds: float, megabytes: Callable[[], float]
) -> tuple[float, float]:
    """(megabytes per second, CPU milliseconds of the server per megabyte), after half a second of warm-up."""
    drive(lines, 0.5)
    used, moved = cpu_seconds(server.pid), megabytes()
    elapsed = drive(lines, seconds)
    moved = megabytes() - moved
    result = moved / elapsed, (cpu_seconds(server.pid) - used) / moved * 1e3
    for line in lines:
        line.sock.close()
    return result


def measure_produce(server: RunningServer, seconds: float) -> tuple[float, float]:
    data, moved = batch(), [0]

    def line(partition: int) -> Line:
        frame = produce_request(partition, data)

        def note_answer(answer: bytes) -> bytes:
            moved[0] += len(data)
            return frame

        return Line(server.port, frame, note_answer)

    return cost(server, [line(partition) for partition in range(CONNECTIONS)], seconds, lambda: moved[0] / MEGABYTE)


def measure_fetch(server: RunningServer, seconds: float) -> tuple[float, float]:
    """From the beginning of what was produced, and from the beginning again: each fetch one batch."""
    moved, one = [0], len(batch())

    def line(partition: int) -> Line:
        def ask(offset: int) -> bytes:
            asked = FetchRequestPartition(partition, fetch_offset=offset, partition_max_bytes=one)
            topics = (FetchRequestTopic("t", partitions=(asked,)),)
            return encode_request(FETCH, 12, 1, "benchmark", FetchRequest(min_bytes=1, max_wait_ms=1, topics=topics))

        offset = 0

        def note_answer(answer: bytes) -> bytes:
            nonlocal offset
            moved[0] += len(answer)
            offset = offset + RECORDS if len(answer) > one else 0
            return ask(offset)

        return Line(server.port, ask(0), note_answer)

    return cost(server, [line(partition) for partition in range(CONNECTIONS)], seconds, lambda: moved[0] / MEGABYTE)


def measure_echo(server: RunningServer, seconds: float) -> tuple[float, float]:
    frame, moved = produce_request(0, batch()), [0]

    def note_answer(answer: bytes) -> bytes:
        moved[0] += len(answer)
        return frame

    lines = [Line(server.port, frame, note_answer) for _ in range(CONNECTIONS)]
    return cost(server, lines, seconds, lambda: moved[0] / MEGABYTE)


def measure_waits(server: RunningServer, consumers: int, seconds: float) -> tuple[float, list[float]]:
    """(the part of a core that idle consumers cost, the milliseconds from each produce to each answer it gave)."""
    ends, waits, sent_at = [0] * PARTITIONS, [], [0.0] * PARTITIONS

    def line(number: int) -> Line:
        partition, offset = number % PARTITIONS, 0

        def note_answer(answer: bytes) -> bytes:
            nonlocal offset
            if len(answer) > RECORD_BYTES:
                waits.append((time.perf_counter() - sent_at[partition]) * 1e3)
                offset = ends[partition]
            return fetch_request(partition, offset)

        return Line(server.port, fetch_request(partition, 0), note_answer)

    lines: list[Line] = []
    for number in range(consumers):  # spread over the wait, as consumers are that have nothing to do with each other
        lines.append(line(number))
        time.sleep(WAIT_MS / 1000 / consumers)
    drive(lines, 1.0)
    used = cpu_seconds(server.pid)
    elapsed = drive(lines, seconds)
    idle = (cpu_seconds(server.pid) - used) / elapsed
    single, next_at, turn = batch(1), [0.0], [0]
    producer = Line(server.port, produce_request(0, single), lambda answer: None)
    ends[0] += 1

    def also(now: float) -> None:
        if now >= next_at[0]:
            partition = turn[0] % PARTITIONS
            ends[partition] += 1
            sent_at[partition] = time.perf_counter()
            producer.sock.sendall(produce_request(partition, single))
            next_at[0], turn[0] = now + 0.05, turn[0] + 1

    drive([*lines, producer], seconds, also)
    for one in (*lines, producer):
        one.sock.close()
    return idle, waits[consumers // PARTITIONS :]  # the first produce was a warm-up


def echo(port: int) -> None:
    """The bare echo: a task a connection, what comes goes back."""
    import trio

    async def handler(stream: trio.SocketStream) -> None:
        with contextlib.suppress(trio.BrokenResourceError):  # the driver leaves in the middle of an answer
            async for chunk in stream:
                await stream.send_all(chunk)

    trio.run(trio.serve_tcp, handler, port)


def records(beside: str | None, seconds: float, rounds: int) -> None:
    """Measure all servers in turn, and print the table."""
    echoing = [sys.executable, "-m", "benchmarks.dataplane", "--echo"]
    found: dict[str, list[tuple[float, float]]] = {}
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        brokers = {"": stack.enter_context(RunningServer(Path(folder), "--topic", f"t:{PARTITIONS}"))}
        if beside:
            brokers[f" by {shlex.split(beside)[0].rpartition('/')[2]}"] = stack.enter_context(
                RunningServer(Path(), command=shlex.split(beside))
            )
        floor = stack.enter_context(RunningServer(Path(), command=echoing))
        for broker in brokers.values():
            answer = decode_response(FETCH, 12, first_answer(broker, fetch_request(0, 0)))
            assert answer.body.responses[0].partitions[0].error_code == 0, answer
        for _ in range(rounds):
            for name, broker in brokers.items():
                found.setdefault(f"produced{name}", []).append(measure_produce(broker, seconds))
                found.setdefault(f"fetched{name}", []).append(measure_fetch(broker, seconds))
            found.setdefault("echoed", []).append(measure_echo(floor, seconds))
    print(f"{RECORDS} records of {RECORD_BYTES} bytes a batch, {CONNECTIONS} connections    MB/s    CPU ms a MB")
    for what, measured in found.items():
        rate, cpu = (statistics.median(one) for one in zip(*measured, strict=True))
        print(f"{what:<55}{rate:>8.0f}{cpu:>14.2f}")
    for name in brokers:
        ratio = statistics.median(
            (writing[1] + reading[1]) / moving[1]
            for writing, reading, moving in zip(
                found[f"produced{name}"], found[f"fetched{name}"], found["echoed"], strict=True
            )
        )
        print(f"produced and fetched{name}, to the echo: {ratio:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--consumers", type=int, default=500)
    parser.add_argument("--beside", metavar="COMMAND", help="another broker; {port} is where it is to listen")
    parser.add_argument("--echo", type=int, metavar="PORT", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.echo is not None:
        echo(args.echo)
        return
    records(args.beside, args.seconds, args.rounds)
    with tempfile.TemporaryDirectory() as name, RunningServer(Path(name), "--topic", f"t:{PARTITIONS}") as server:
        idle, waits = measure_waits(server, args.consumers, args.seconds)
    ordered = statistics.quantiles(waits, n=100)
    print(
        f"{args.consumers} idle consumers: {idle:.1%} of a core; woken after {statistics.median(waits):.1f} ms"
        f" (p99 {ordered[98]:.1f} ms, {len(waits)} times)"
    )


def first_answer(server: RunningServer, frame: bytes) -> bytes:
    """One request by itself, and its answer."""
    found: list[bytes] = []

    def note_answer(answer: bytes) -> None:
        found.append(answer)

    line = Line(server.port, frame, note_answer)
    while not found:
        line.ready()
    line.sock.close()
    return found[0]


if __name__ == "__main__":
    main()
