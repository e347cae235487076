"""CRC-32C, the checksum of Kafka's batches."""

from google_crc32c import extend

Buffer = bytes | bytearray | memoryview


def crc32c(data: Buffer, crc: int = 0) -> int:
    """Return the checksum of `data`, or of what has the checksum `crc` with `data` behind it."""
    found: int = extend(crc, data if data.__class__ is bytes else bytes(data))  # it takes nothing but bytes
    return found
