"""What an API is like, besides its bytes: what the parts of a server have to know of it in order to treat it well.

The column `traits` of `protocol/apis.py` has them for each API. A part of the server that treats some APIs differently
asks `keys_with`, and has no list of its own.
"""

from enum import Flag, auto


class Trait(Flag):
    """One thing to know of an API. Each API READS or CHANGES; the other traits are as may be."""

    READS = auto()
    """Its requests change nothing. So if its response has no bytes, UNKNOWN_SERVER_ERROR can take its place."""
    CHANGES = auto()
    """Its requests may change something. If its response has no bytes, the connection is closed."""
    URGENT = auto()
    """A request of up to 16 KiB is decided as it arrives, before those of others that are not urgent."""
    URGENT_IF_BRIEF = auto()
    """The same for a request of up to 512 bytes: each four of them ask for an entry with a string of 4 KiB."""
    INLINE = auto()
    """The response is short unless the request was parked: it is encoded at once, however many others are."""
    OF_TOPICS = auto()
    """The response may rest on records that the turn has appended to topics, and is withdrawn if they are lost."""
    REPEATS = auto()
    """Clients send the same request again and again."""
    CONSTANT = auto()
    """The handler may return one and the same response again, so a connection keeps the bytes of the latest one."""
    HEARTBEAT = auto()
    """It only says that a member is there."""
    LARGE = auto()
    """A request may have more elements than the floor of the budget has room for (`bounds`)."""
    HANDSHAKE = auto()
    """A client sends it before it is known: everybody may, and it is charged to no quota."""
    UNGUARDED = auto()
    """Everybody may send it, for another reason than HANDSHAKE."""
    LIMITED = auto()
    """It makes or removes partitions, which `controller_mutation_rate` limits."""
    CUT_OFF = auto()
    """Nothing more of it is done where its client has left, though it CHANGES something: that is the client's own, as a
    session, or each part of it is complete. So it is with what READS; all else is done to its end, as in Kafka."""
    OF_THE_MACHINE = auto()
    """The response depends on the machine. A replay does not compare it."""


READ = Trait.READS
CHANGE = Trait.CHANGES
MEMBER = Trait.CHANGES | Trait.URGENT | Trait.INLINE
"""What the members of a group send in order to stay members: one that is late loses its partitions."""
HEARTBEAT = MEMBER | Trait.HEARTBEAT | Trait.REPEATS
BEAT = HEARTBEAT | Trait.CONSTANT
"""Heartbeat of the classic protocol: one response tells of every success."""
COMMIT = MEMBER | Trait.LARGE | Trait.CONSTANT
OFFSETS = Trait.READS | Trait.URGENT_IF_BRIEF | Trait.INLINE | Trait.REPEATS | Trait.LARGE
"""OffsetFetch, which a member sends before it consumes."""
MANY = Trait.CHANGES | Trait.LARGE
"""What else may name a hundred thousand partitions of a group."""
WRITE = Trait.CHANGES | Trait.INLINE | Trait.OF_TOPICS
POLL = Trait.CHANGES | Trait.INLINE | Trait.OF_TOPICS | Trait.REPEATS | Trait.CONSTANT | Trait.CUT_OFF
"""Fetch, which changes its session."""
ACQUIRE = Trait.CHANGES | Trait.INLINE | Trait.OF_TOPICS | Trait.LARGE | Trait.CUT_OFF
"""ShareFetch, which acquires records, and may acknowledge each of many by itself."""
GREETING = Trait.READS | Trait.HANDSHAKE | Trait.URGENT | Trait.INLINE
LOG_IN = Trait.CHANGES | Trait.HANDSHAKE | Trait.URGENT
LOOK_UP = Trait.CHANGES | Trait.CUT_OFF
"""Metadata, which creates topics that are asked for, and describes any number of them to a client of a few bytes."""
RESIZE = Trait.CHANGES | Trait.LIMITED
TOKEN = Trait.CHANGES | Trait.UNGUARDED
"""Delegation tokens are the client's own, and there are none."""
READ_TOKENS = Trait.READS | Trait.UNGUARDED
READ_MACHINE = Trait.READS | Trait.OF_THE_MACHINE
