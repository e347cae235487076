"""Which requests make groups take more memory, told before they are decided."""

import pytest

from coordinator.core.kinds.classic.group import ClassicGroup, Member
from coordinator.core.kinds.classic.kind import ASSIGNMENT_BYTES
from coordinator.core.kinds.registry import GROWING
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment


def group_of(count: int) -> ClassicGroup:
    members = [Member(f"m{number}", "c", "/h", 6_000, 6_000, (("range", bytes(900)),)) for number in range(count)]
    return ClassicGroup("g").with_members({member.member_id: member for member in members})


@pytest.mark.parametrize("count", [1, 2, 5])
def test_a_group_has_room_for_an_average_assignment_of_each_member(count: int) -> None:
    """The room is one for all members: a leader may give nearly all of it to one."""
    is_growing = GROWING[SyncGroupRequest]
    for size, grows in ((ASSIGNMENT_BYTES * count, False), (ASSIGNMENT_BYTES * count + 1, True)):
        for sizes in ([size], [size - 1, 1], [size // 2, size - size // 2]):
            parts = [SyncGroupRequestAssignment(f"m{number}", bytes(part)) for number, part in enumerate(sizes)]
            assert is_growing(SyncGroupRequest("g", assignments=tuple(parts)), group_of(count)) == grows


def test_a_member_that_is_there_and_brings_no_more_makes_nothing_grow() -> None:
    is_growing = GROWING[JoinGroupRequest]
    for member_id, size, grows in (("m0", 900, False), ("m0", 9_000, True), ("m1", 1, True), ("", 1, True)):
        request = JoinGroupRequest(
            "g", member_id=member_id, protocols=(JoinGroupRequestProtocol("range", bytes(size)),)
        )
        assert is_growing(request, group_of(1)) == grows
        assert is_growing(request, None)
