"""Which requests are decided as they arrive: those of members, as long as they are cheap."""

from coordinator.server.urgency import is_urgent
from protocol.apis import APIS
from protocol.codec import encode_request
from protocol.traits import Trait
from tests.requests import fetch_offsets

LONGEST_COMMIT, ASKED_AT_ONCE = 16 * 1_024, 200


def test_a_short_request_is_urgent_if_members_send_it() -> None:
    for key, api in APIS.items():
        frame = key.to_bytes(2, "big") + bytes(100)
        assert is_urgent(frame) == bool(api.traits & (Trait.URGENT | Trait.URGENT_IF_BRIEF)), api.name
        assert not is_urgent(frame + bytes(LONGEST_COMMIT)), "however urgent"


def test_no_urgent_fetch_asks_for_many_offsets() -> None:
    """Each of them may have 4 KiB of metadata, and takes four bytes to ask for."""
    counts = (*range(1, 300), 1_000, 3_000)
    frames = [encode_request(9, 9, 1, "c", fetch_offsets("g", {"t": range(count)}))[4:] for count in counts]
    urgent = [count for count, frame in zip(counts, frames, strict=True) if is_urgent(frame)]
    assert 50 <= max(urgent) <= ASKED_AT_ONCE
    assert urgent == list(range(1, max(urgent) + 1))
