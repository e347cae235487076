"""`SharePartitions` remembers of connections and their share sessions what a model of sets remembers."""

from hypothesis import given
from hypothesis import strategies as st

from coordinator.core.share_partitions.load import load_partition
from coordinator.core.share_partitions.sessions import SessionKey, ShareSession
from coordinator.core.share_state.values import ShareState, StateKey
from coordinator.dataplane.share.partitions import SharePartitions

TOPIC = b"t" * 16
WHATS = ("open", "open", "close", "serve", "drop", "lose")


@given(
    st.lists(
        st.tuples(
            st.sampled_from(WHATS), st.integers(1, 3), st.sampled_from("gh"), st.sampled_from("ab"), st.integers(0, 1)
        )
    )
)
def test_a_connection_is_watched_for_groups_that_are_in_use_and_no_others(
    done: list[tuple[str, int, str, str, int]],
) -> None:
    """Members open and close sessions of any number of groups: what is known of them must not grow with that."""
    share = SharePartitions(10)
    carried: dict[SessionKey, int] = {}  # the connection of each session
    opened: set[tuple[int, str]] = set()  # connections with the groups of sessions that they have opened
    served: set[str] = set()
    for what, connection, group, member, node_id in done:
        key, state_key = SessionKey(group, member, node_id), StateKey(group, TOPIC, 0)
        if what == "open":
            assert isinstance(share.open_session(key, connection, [(TOPIC, 0)], False), ShareSession)
            carried[key] = connection
            opened.add((connection, group))
        elif what == "close" and (session := share.sessions.find(key)) is not None:
            assert share.close_session(session) is session
            assert share.close_session(session) is None
            del carried[key]
        elif what == "serve" and any(name == group for name, *_ in carried):
            share.put(state_key, load_partition(ShareState(), 0))
            served.add(group)
        elif what == "drop":
            share.drop(state_key)
            served.discard(group)
        elif what == "lose":
            closed, empty = share.close_connection(connection)
            lost = {one for one, at in carried.items() if at == connection}
            assert {session.key for session in closed} == lost
            carried = {one: at for one, at in carried.items() if one not in lost}
            own = {name for at, name in opened if at == connection}
            assert set(empty) == own - {name for name, *_ in carried}
            opened = {one for one in opened if one[0] != connection}
        opened = {(at, name) for at, name in opened if name in served or any(name == one for one, *_ in carried)}
        assert {at for at in range(4) if share.is_watched(at)} == {at for at, _ in opened}
        assert {(at, name) for at, names in share._groups_of_connection.items() for name in names} == opened
        assert {(at, name) for name, all_at in share._connections_of_group.items() for at in all_at} == opened
