"""How much memory the process may take before the system ends it."""

import contextlib
import os
from functools import cache
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")


@cache
def memory_limit(root: Path = ROOT, own: Path = Path("/proc/self/cgroup")) -> int:
    """Return bytes: the least of the machine's memory and the limits of the control groups that the process is in (a
    container's, a service's); -1 if nothing is known. `root` is where version 2 of control groups is mounted, `own`
    the file that names the group of the process."""
    limits = [_limit(root / "memory" / "memory.limit_in_bytes")]  # version 1
    group = _group(own)
    limits += [_limit(root / above / "memory.max") for above in (group, *group.parents)]
    with contextlib.suppress(OSError, ValueError):
        limits.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    return min((limit for limit in limits if limit >= 0), default=-1)


def _group(own: Path) -> Path:
    """Return the control group of the process, relative to the root."""
    try:
        lines = own.read_text("utf-8").splitlines()
    except (OSError, ValueError):
        lines = []
    return Path(next((line[3:].lstrip("/") for line in lines if line.startswith("0::/")), ""))


def _limit(file: Path) -> int:
    """Return the limit in a file, -1 if there is none; `max` stands for none."""
    try:
        text = file.read_text("ascii").strip()
    except (OSError, ValueError):
        return -1
    return int(text) if text.isdigit() else -1
