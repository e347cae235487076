"""The length of the metadata of a committed offset."""


def is_too_long(metadata: str | None, most: int) -> bool:
    """Return whether a commit's metadata is longer than `most` UTF-16 code units, which is how Kafka counts its
    bytes."""
    if metadata is None or len(metadata) * 2 <= most:
        return False
    return len(metadata.encode("utf-16-le", "surrogatepass")) // 2 > most
