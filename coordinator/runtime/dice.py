"""Where random ids come from: the system, or a seed, for runs that can be repeated."""

import random


class FreshIds:
    """A function that gives a random UUID (version 4) in 36 lower-case characters at each call."""

    def __init__(self, seed: int | None = None) -> None:
        self.seed = seed
        self.count = 0  # of ids that were given
        self._bits = random.SystemRandom().getrandbits if seed is None else random.Random(seed).getrandbits

    def __call__(self) -> str:
        self.count += 1
        number = self._bits(128) & ~(0xF << 76) & ~(0x3 << 62) | (4 << 76) | (2 << 62)
        text = f"{number:032x}"
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"

    def skip(self, count: int) -> None:
        """Give so many ids to nobody."""
        for _ in range(count):
            self()


def fresh_ids(seed: int | None = None) -> FreshIds:
    """Return a source of ids: of the system, or of a seed, which is no secret."""
    return FreshIds(seed)
