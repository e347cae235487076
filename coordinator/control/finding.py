"""A finding of `/v1/lint` about a client."""

from msgspec import Struct


class Finding(Struct, frozen=True):
    """Something that a client does and should not do."""

    rule: str
    client: str
    group: str
    evidence: str
