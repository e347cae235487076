"""The environment of a handler: all that a decision may depend on, beside the group and the request."""

from collections.abc import Mapping

from msgspec import Struct, field

from coordinator.core.assignors import BUILT_IN
from coordinator.core.assignors.spec import Assignor
from coordinator.core.limits import Limits
from coordinator.core.offsets.store import OffsetStore
from coordinator.core.result import Call
from coordinator.core.topics import Topics


class Env(Struct, frozen=True, gc=False):
    """The environment of one decision. A timer's call has a time and no client."""

    call: Call
    limits: Limits  # with the group's own settings in them
    topics: Topics
    assignors: Mapping[str, Assignor] = field(default_factory=lambda: BUILT_IN)
    offsets: OffsetStore = field(default_factory=OffsetStore)
