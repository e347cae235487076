"""How much memory the process may take before the system ends it."""

import os
from functools import cache
from pathlib import Path

_CONTROL_GROUPS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")  # versions 2 and 1


@cache
def memory_limit() -> int:
    """Return bytes: of the control group (a container's limit), else of the machine; -1 if neither is known."""
    try:
        machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (OSError, ValueError):
        machine = -1
    for name in _CONTROL_GROUPS:
        try:
            text = Path(name).read_text("ascii").strip()
        except (OSError, ValueError):
            continue
        if text.isdigit():  # `max` stands for none
            return min(int(text), machine) if machine >= 0 else int(text)
    return machine
