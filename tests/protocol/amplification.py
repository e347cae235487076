"""The worst legal frames, and what reading them costs in memory. Run as a command, in a process of its own:

    python -m tests.protocol.amplification [--bytes 1048576] [--every 1]

For the highest version of each API's request, and for each array in it, frames are filled with elements of the kinds that
cost most for their bytes. One line of JSON says what the worst cost; the address space is limited meanwhile.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import resource
import sys
from collections.abc import Iterator
from pathlib import Path
from struct import pack, unpack
from typing import Any

from construct import Bytes, Construct, FormatField

from protocol.constructs import ArrayOf, Blob, Text, uvarint
from protocol.errors import ProtocolError
from protocol.structs import NullableStruct, StructOf, TagSection
from tests.protocol.targets import REQUESTS, Target

ADDRESS_SPACE = 512 << 20
KINDS = ("empty", "texts", "nested", "all")
LATEST = [target for target in REQUESTS if target.version == max(target.api.versions)]


def worst(subcon: Construct, kind: str) -> Any:
    """A value that costs much for its bytes: short wide strings, numbers that Python does not keep, arrays of one."""
    if isinstance(subcon, FormatField):
        return 1.5 if subcon.fmtstr == ">d" else {"?": True, "b": -100, "B": 200}.get(subcon.fmtstr[1:], 30_000)
    if isinstance(subcon, Bytes):
        return b"u" * 16
    if isinstance(subcon, Text):
        return "Ā" if kind in ("texts", "all") else ""
    if isinstance(subcon, Blob):
        return b"ab" if kind in ("texts", "all") else b""
    if isinstance(subcon, ArrayOf):
        return (worst(subcon.element, kind),) if kind in ("nested", "all") else ()
    if isinstance(subcon, NullableStruct):
        return worst(subcon.subcon, kind)
    assert isinstance(subcon, StructOf)
    return subcon.cls(
        **{name: worst(member, kind) for name, member in subcon.members if not isinstance(member, TagSection)}
    )


def arrays(root: StructOf, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], ArrayOf]]:
    """Each array of a message, with the names that lead to it."""
    for name, member in root.members:
        inner = member.subcon if isinstance(member, NullableStruct) else member
        if isinstance(inner, ArrayOf):
            yield (*path, name), inner
            inner = inner.element
        if isinstance(inner, StructOf):
            yield from arrays(inner, (*path, name))


def stuffed(root: StructOf, path: tuple[str, ...], kind: str, copies: int) -> Any:
    """A message in which the array at `path` has so many elements, and those on the way to it one."""
    values: dict[str, Any] = {}
    for name, member in root.members:
        if isinstance(member, TagSection):
            continue
        values[name] = worst(member, "empty")
        if name != path[0]:
            continue
        inner = member.subcon if isinstance(member, NullableStruct) else member
        if not isinstance(inner, ArrayOf):
            values[name] = stuffed(inner, path[1:], kind, copies)
        elif len(path) == 1:
            values[name] = (worst(inner.element, kind),) * copies
        else:
            values[name] = (stuffed(inner.element, path[1:], kind, copies),)
    return root.cls(**values)


def cost(target: Target, frame: bytes) -> tuple[int, bool]:
    """The most memory that reading took at any time, in bytes, and whether the frame was accepted.

    Measured on a fork of this process: what it has resident at its peak, over what it had before.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        before, accepted = resident("VmRSS"), 1
        try:
            target.decode(frame)
        except ProtocolError:
            accepted = 0
        os.write(writer, pack(">q?", resident("VmHWM") - before, accepted))
        os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    answer = os.read(reader, 9)
    os.close(reader)
    assert answer, f"out of memory: {target}"
    taken, was_accepted = unpack(">q?", answer)
    return taken, was_accepted


def resident(line: str) -> int:
    """Bytes of memory by a line of the process's status."""
    status = Path("/proc/self/status").read_text()
    return 1024 * next(int(text.split()[1]) for text in status.splitlines() if text.startswith(line))


def frames(size: int) -> Iterator[tuple[str, Target, bytes]]:
    """Frames of about `size` bytes, each with a name."""
    for target in LATEST:
        target.decode(target.encode(target.body.cls()))  # generates the decoder, so that it is not measured
        for path, array in arrays(target.body):
            for kind in KINDS:
                one, two = (target.encode(stuffed(target.body, path, kind, copies)) for copies in (1, 2))
                yield f"{target} {'.'.join(path)} {kind}", target, grown(one, two, array.compact, size)


def grown(one: bytes, two: bytes, compact: bool, size: int) -> bytes:
    """From frames with one and with two equal elements, that with as many as fit into `size` bytes."""
    at = next(index for index, (a, b) in enumerate(zip(one, two, strict=False)) if a != b)  # the count, or its end
    element = two[at + 1 : at + 1 + len(two) - len(one)]
    copies = size // len(element)
    count = one[:at] + uvarint(copies + 1) if compact else one[: at - 3] + pack(">i", copies)
    return count + element * copies + one[at + 1 + len(element) :]


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure what the worst legal frames cost in memory.")
    parser.add_argument("--bytes", type=int, default=1 << 20, help="of each frame")
    parser.add_argument("--every", type=int, default=1, help="measure every nth of the frames; 1 for all")
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    seen, accepted, worst_ratio, worst_bytes, worst_name = 0, 0, 0.0, 0, ""
    for name, target, frame in itertools.islice(frames(options.bytes), 0, None, options.every):
        taken, was_accepted = cost(target, frame)
        seen += 1
        accepted += was_accepted
        worst_bytes = max(worst_bytes, taken)
        if taken / len(frame) > worst_ratio:
            worst_ratio, worst_name = taken / len(frame), name
    print(
        json.dumps(
            {"frames": seen, "accepted": accepted, "ratio": worst_ratio, "bytes": worst_bytes, "worst": worst_name}
        )
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
