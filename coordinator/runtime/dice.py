"""Where random ids come from: the system, or a seed, for runs that can be repeated."""

import random
from collections.abc import Callable


def fresh_ids(seed: int | None = None) -> Callable[[], str]:
    """A function that gives a random UUID (version 4) in 36 lower-case characters at each call."""
    bits = random.SystemRandom().getrandbits if seed is None else random.Random(seed).getrandbits  # a seed is no secret

    def fresh_id() -> str:
        number = bits(128) & ~(0xF << 76) & ~(0x3 << 62) | (4 << 76) | (2 << 62)
        text = f"{number:032x}"
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"

    return fresh_id
