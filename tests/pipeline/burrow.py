"""What Burrow's evaluator answers, rule by rule in its order, as its source of October 2025 has it."""

# ruff: noqa: SIM110 - loops as they stand in Burrow, so that the two can be read side by side

Window = tuple[list[int], list[int], list[int | None], list[int]]  # offsets, times, lags at the commits, broker offsets


def status(window: Window, current_lag: int, now_ms: int, allowed_lag: int = 0) -> str:
    offsets, times, lags, broker = window
    if current_lag > allowed_lag:
        if stopped(times, now_ms // 1000) and not recently_zero(offsets, broker):
            return "STOP"
        index = rewind(offsets)
        if index > 0 and not recovered(offsets, index):
            return "REWIND"
        if always_above(lags, allowed_lag):
            if stalled(offsets):
                return "STALL"
            if not_decreasing(lags):
                return "WARN"
    return "OK"


def always_above(lags: list[int | None], allowed_lag: int) -> bool:
    for lag in lags:
        if lag is not None and lag <= allowed_lag:
            return False
    return True


def rewind(offsets: list[int]) -> int:
    for i in range(1, len(offsets)):
        if offsets[i] < offsets[i - 1]:
            return i
    return -1


def recovered(offsets: list[int], reset: int) -> bool:
    before = offsets[reset - 1]
    for i in range(reset, len(offsets)):
        if offsets[i] >= before:
            return True
    return False


def stopped(times: list[int], now_s: int) -> bool:
    first, last = times[0], times[-1]
    return (now_s * 1000) - last > (last - first)


def stalled(offsets: list[int]) -> bool:
    for i in range(1, len(offsets)):
        if offsets[i] != offsets[i - 1]:
            return False
    return True


def not_decreasing(lags: list[int | None]) -> bool:
    last: int | None = None
    for lag in lags:
        if lag is not None:
            if last is not None and lag < last:
                return False
            last = lag
    return True


def recently_zero(offsets: list[int], broker: list[int]) -> bool:
    for leo in broker:
        if leo <= offsets[-1]:
            return True
    return False
