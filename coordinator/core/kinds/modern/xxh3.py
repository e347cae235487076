"""XXH3 with 64 bits, seed 0 and the default secret: the hash in Kafka's record of a consumer group's epoch (KIP-1101).

Only whether it has changed ever matters. But a group that another server wrote would change its epoch once, and all of
its members rebalance, if we hashed otherwise; so we hash as Kafka does. Inputs here are a few hundred bytes and results
are cached: what counts is that this can be read beside the specification.
"""

from struct import unpack_from
from typing import Final

_SECRET: Final = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221"
    "b8084674f743248ee03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb"
    "170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
)
_MASK: Final = 0xFFFFFFFFFFFFFFFF
_PRIME32: Final = (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D)
_PRIME64: Final = (
    0x9E3779B185EBCA87,
    0xC2B2AE3D27D4EB4F,
    0x165667B19E3779F9,
    0x85EBCA77C2B2AE63,
    0x27D4EB2F165667C5,
)
_STRIPE: Final = 64
_STRIPES_A_BLOCK: Final = (len(_SECRET) - _STRIPE) // 8


def xxh3_64(data: bytes) -> int:
    """Return the hash as an unsigned number."""
    size = len(data)
    if size <= 16:
        return _short(data, size)
    if size <= 128:
        return _medium(data, size)
    return _longer(data, size) if size <= 240 else _long(data, size)


def _short(data: bytes, size: int) -> int:
    if size > 8:
        low = _read64(data, 0) ^ _secret64(24) ^ _secret64(32)
        high = _read64(data, size - 8) ^ _secret64(40) ^ _secret64(48)
        swapped = int.from_bytes(low.to_bytes(8, "little"), "big")
        return _avalanche(size + swapped + high + _fold(low, high))
    if size >= 4:
        first, last = _read32(data, 0), _read32(data, size - 4)
        mixed = (last + (first << 32)) ^ _secret64(8) ^ _secret64(16)
        mixed ^= _rotate(mixed, 49) ^ _rotate(mixed, 24)
        mixed = mixed * 0x9FB21C651E98DF25 & _MASK
        mixed ^= (mixed >> 35) + size
        mixed = mixed * 0x9FB21C651E98DF25 & _MASK
        return mixed ^ mixed >> 28
    if size:
        mixed = data[0] << 16 | data[size >> 1] << 24 | data[-1] | size << 8
        return _avalanche_short(mixed ^ _read32(_SECRET, 0) ^ _read32(_SECRET, 4))
    return _avalanche_short(_secret64(56) ^ _secret64(64))


def _medium(data: bytes, size: int) -> int:
    """From both ends towards the middle, 16 bytes at a time."""
    total = size * _PRIME64[0]
    for pair in reversed(range((size - 1) // 32 + 1)):
        total += _mix(data, 16 * pair, 32 * pair)
        total += _mix(data, size - 16 * (pair + 1), 32 * pair + 16)
    return _avalanche(total)


def _longer(data: bytes, size: int) -> int:
    total = size * _PRIME64[0]
    for part in range(8):
        total += _mix(data, 16 * part, 16 * part)
    total = _avalanche(total)
    for part in range(8, size // 16):
        total += _mix(data, 16 * part, 16 * (part - 8) + 3)
    return _avalanche(total + _mix(data, size - 16, 136 - 17))


def _long(data: bytes, size: int) -> int:
    """Stripes of 64 bytes into eight lanes; the lanes are scrambled after each block of stripes."""
    lanes = [_PRIME32[2], *_PRIME64[:4], _PRIME32[1], _PRIME64[4], _PRIME32[0]]
    for stripe in range((size - 1) // _STRIPE):
        _accumulate(lanes, data, stripe * _STRIPE, stripe % _STRIPES_A_BLOCK * 8)
        if stripe % _STRIPES_A_BLOCK == _STRIPES_A_BLOCK - 1 and (stripe + 1) * _STRIPE <= size - 1:
            _scramble(lanes)
    _accumulate(lanes, data, size - _STRIPE, len(_SECRET) - _STRIPE - 7)
    total = size * _PRIME64[0]
    for lane in range(0, 8, 2):
        total += _fold(lanes[lane] ^ _secret64(11 + 8 * lane), lanes[lane + 1] ^ _secret64(19 + 8 * lane))
    return _avalanche(total)


def _accumulate(lanes: list[int], data: bytes, at: int, secret: int) -> None:
    for lane, value in enumerate(unpack_from("<8Q", data, at)):
        keyed = value ^ _secret64(secret + 8 * lane)
        lanes[lane ^ 1] = lanes[lane ^ 1] + value & _MASK
        lanes[lane] = lanes[lane] + (keyed & 0xFFFFFFFF) * (keyed >> 32) & _MASK


def _scramble(lanes: list[int]) -> None:
    for lane, value in enumerate(lanes):
        keyed = value ^ value >> 47 ^ _secret64(len(_SECRET) - _STRIPE + 8 * lane)
        lanes[lane] = keyed * _PRIME32[0] & _MASK


def _mix(data: bytes, at: int, secret: int) -> int:
    return _fold(_read64(data, at) ^ _secret64(secret), _read64(data, at + 8) ^ _secret64(secret + 8))


def _fold(one: int, other: int) -> int:
    product = one * other
    return product & _MASK ^ product >> 64


def _avalanche(value: int) -> int:
    value &= _MASK
    value = (value ^ value >> 37) * 0x165667919E3779F9 & _MASK
    return value ^ value >> 32


def _avalanche_short(value: int) -> int:
    value = (value ^ value >> 33) * _PRIME64[1] & _MASK
    value = (value ^ value >> 29) * _PRIME64[2] & _MASK
    return value ^ value >> 32


def _rotate(value: int, bits: int) -> int:
    return (value << bits | value >> 64 - bits) & _MASK


def _read32(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 4], "little")


def _read64(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 8], "little")


def _secret64(at: int) -> int:
    return _read64(_SECRET, at)
