"""Who coordinates: FindCoordinator."""

from tests.conformance.stage import Stage
from tests.conformance.story import story


@story("F-001 F-002 F-011 F-015 G-010 Q-034")
def every_version_finds_the_coordinator_of_a_group(k: Stage) -> None:
    """Versions 0 to 3 take one key, later ones several; the message of a success is `NONE`, null or empty by version."""
    for version in range(4):
        k.line("a").call("find_coordinator", version, key=k.name("g"))
    for version in (4, 5, 6):
        k.line("a").call("find_coordinator", version, coordinator_keys=[k.name("g")])


@story("F-001")
def every_version_finds_the_coordinator_of_a_transaction(k: Stage) -> None:
    """Key type 1, from version 1 on."""
    for version in (1, 2, 3):
        k.line("a").call("find_coordinator", version, key=k.name("t"), key_type=1)
    for version in (4, 5, 6):
        k.line("a").call("find_coordinator", version, coordinator_keys=[k.name("t")], key_type=1)


@story("F-002 F-003 F-016")
def many_keys_are_answered_in_order(k: Stage) -> None:
    """Each key has its answer, also the one that comes twice; no keys, no answers."""
    keys = [k.name(name) for name in ("b", "a", "c", "a")]
    k.line("a").call("find_coordinator", 4, coordinator_keys=keys)
    k.line("a").call("find_coordinator", 6, coordinator_keys=[])


@story("F-004 F-012 F-015 F-018")
def a_key_type_that_is_none(k: Stage) -> None:
    """INVALID_REQUEST at the top or for each key, with a message and no node."""
    for key_type in (3, -1):
        k.line("a").call("find_coordinator", 2, key=k.name("g"), key_type=key_type)
        k.line("a").call("find_coordinator", 4, coordinator_keys=[k.name("g"), "x"], key_type=key_type)


@story("F-007")
def share_keys_before_and_in_version_6(k: Stage) -> None:
    """Before version 6 there are no share groups to find; a key that has not the form of one is refused."""
    k.line("a").call("find_coordinator", 3, key=k.name("g"), key_type=2)
    k.line("a").call("find_coordinator", 5, coordinator_keys=[k.name("g")], key_type=2)
    k.line("a").call("find_coordinator", 6, coordinator_keys=[k.name("g")], key_type=2)


@story("F-014 G-045")
def the_empty_key_has_a_coordinator(k: Stage) -> None:
    """An empty group id is a key like others."""
    k.line("a").call("find_coordinator", 1, key="")
    k.line("a").call("find_coordinator", 4, coordinator_keys=[""])
    k.line("a").call("find_coordinator", 4, coordinator_keys=[""], key_type=1)
