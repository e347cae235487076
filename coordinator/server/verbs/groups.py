"""Groups and their members, as an operator drives them."""

from collections.abc import Callable, Collection, Generator, Iterable, Mapping
from typing import Final

from coordinator.control.faults import Action, FaultSpec, Match
from coordinator.core.decision import Steps
from coordinator.core.events import Cause
from coordinator.core.group_view import GroupView, MemberView
from coordinator.core.groups import view_group
from coordinator.core.kinds.kind import Group, Member
from coordinator.core.kinds.registry import kind_of
from coordinator.core.pace import Pace, sort_in_steps
from coordinator.core.verbs import Forget, Rebalance, RemoveMember, SetTarget, Verb
from coordinator.dataplane.brokers import NOBODY
from coordinator.runtime.edge import Failure
from coordinator.runtime.node import Node
from coordinator.runtime.partition import Partition
from coordinator.server.frontend import Frontend
from coordinator.server.poller import Poller
from coordinator.server.verbs.refusal import Refusal
from coordinator.server.verbs.requests import RequestVerbs
from protocol.steps import finish_steps

_FORGET_UNITS: Final = 10  # to remove a group, in a turn of its own

Named = Mapping[str, Mapping[str, list[int]]]
"""By the name of a member: partitions by topic, or tasks by subtopology."""


class GroupVerbs:
    """The verbs for groups and their members."""

    def __init__(self, node: Callable[[], Node], frontend: Frontend, poller: Poller, requests: RequestVerbs) -> None:
        self._node = node
        self._frontend = frontend
        self._poller = poller
        self._requests = requests

    def views(self, prefix: str = "") -> list[GroupView]:
        """Return every group whose id begins with `prefix`, sorted by id."""
        return finish_steps(self.views_in_steps(prefix))

    def views_in_steps(self, prefix: str = "") -> Generator[None, None, list[GroupView]]:
        """Return the same in steps. Groups that go meanwhile are left out."""
        views, pace = [], Pace()
        for group_id in (yield from self.names_in_steps(prefix)):
            offsets = self._node().world.partitions.owner(group_id).shard.offsets
            if offsets.is_group_ending(group_id):
                yield from offsets.finish_ends()  # else the view would have some offsets of a transaction
            view = self.find(group_id)
            if view is not None:
                views.append(view)
            if pace.is_due(1 if view is None else 1 + len(view.members) + len(view.offsets)):
                yield
        return views

    def names(self, prefix: str = "", keep: tuple[str, ...] = ()) -> list[str]:
        """Return the ids of all groups that begin with `prefix`, and with none of `keep`, sorted."""
        return finish_steps(self.names_in_steps(prefix, keep))

    def names_in_steps(self, prefix: str = "", keep: tuple[str, ...] = ()) -> Steps[list[str]]:
        """Return the same in steps."""
        names, pace = list[str](), Pace()
        for partition in self._node().world.partitions:
            for group_id in tuple(partition.shard.groups):
                if pace.is_due():
                    yield
                if group_id.startswith(prefix) and not group_id.startswith(keep):
                    names.append(group_id)
        return (yield from sort_in_steps(names))

    def view(self, group_id: str) -> GroupView:
        """Return one group. Raises Refusal when there is none of that id."""
        partition, group = self._find_group(group_id)
        return self._view(partition, group)

    def find(self, group_id: str) -> GroupView | None:
        """Return one group, None when there is none of that id."""
        partition = self._node().world.partitions.owner(group_id)
        group = partition.shard.groups.get(group_id)
        return None if group is None else self._view(partition, group)

    def find_obstacle(self, group_id: str) -> str:
        """Return why it is not known whether there is a group of that id, as a sentence; empty if it is known."""
        world = self._node().world
        if world.partitions.owner(group_id).is_loaded:
            return ""
        if world.coordinators.of_group(group_id) == NOBODY:
            return f"group {group_id!r} has no coordinator: every broker is stopped"
        return f"group {group_id!r} is being loaded"

    def expire(self, group_id: str, name: str, reason: str = "", *, disconnects: bool = False) -> MemberView:
        """Let a member's session expire now."""
        return self._remove(group_id, name, Cause.SESSION_EXPIRED, reason, disconnects=disconnects)

    def kick(self, group_id: str, name: str, reason: str = "", *, disconnects: bool = False) -> MemberView:
        """Remove a member. Its next request is answered UNKNOWN_MEMBER_ID."""
        return self._remove(group_id, name, Cause.MEMBER_KICKED, reason, disconnects=disconnects)

    def fence(self, group_id: str, name: str) -> MemberView:
        """Remove a member, and tell it at its next heartbeat that it is fenced.

        A static member of the classic protocol gets FENCED_INSTANCE_ID, any other of it UNKNOWN_MEMBER_ID, a member of
        a protocol with epochs FENCED_MEMBER_EPOCH.
        """
        _, group = self._find_group(group_id)
        api, error = kind_of(group).find_fence(group, self._resolve(group, name))
        member = self._remove(group_id, name, Cause.MEMBER_FENCED)
        on = Match(api=api, group=group_id, client=member.member_id)
        self._requests.add_fault(FaultSpec(Action(error=error.name), on))
        return member

    def rebalance(self, group_id: str, reason: str = "") -> GroupView:
        """Rebalance a group, though nothing has changed."""
        self._do(group_id, Rebalance(group_id, reason))
        return self.view(group_id)

    def set_target(self, group_id: str, targets: Named, standbys: Named | None = None) -> GroupView:
        """Force the target assignment of a group: for each member, partitions by the name of their topic.

        Of a streams group: active tasks by their subtopology, and standby tasks.
        """
        _, group = self._find_group(group_id)
        both = [self._resolve_all(group, named) for named in (targets, standbys or {})]
        self._do(group_id, SetTarget(group_id, *both))
        return self.view(group_id)

    def forget(self, group_id: str) -> None:
        """Remove a group with its members and offsets, whatever its state is."""
        finish_steps(self.forget_in_steps(group_id))

    def forget_in_steps(self, group_id: str) -> Generator[None, None, None]:
        """Do the same in steps, a share group after the states of its partitions. There can be another of this id when
        this returns."""
        group = self._node().world.partitions.owner(group_id).shard.groups.get(group_id)
        if group is not None and kind_of(group).has_share_states and not self._node().engine.share_states.is_served:
            raise Refusal(f"group {group_id!r}: states of share partitions are being loaded", is_conflict=True)
        self._do(group_id, Forget(group_id))
        while self._is_going(group_id):
            yield
            if self._poller.is_held:  # a scenario goes on while the clock moves
                self._poller.perform(lambda _: None)
            else:
                self._poller.turn()

    def _is_going(self, group_id: str) -> bool:
        """Return whether there is something left of a group that is forgotten. Raises Refusal if that stays."""
        code = self._node().engine.share_states.take_forgetting(group_id)
        if code:
            raise Refusal(f"group {group_id!r}: its share partitions: {code.name}", is_conflict=True)
        has_remains: bool = self._node().world.partitions.owner(group_id).shard.offsets.has_remains(group_id)
        return code is not None or has_remains

    def forget_all(self, prefix: str, keep: tuple[str, ...] = ()) -> int:
        """Remove every group whose id begins with `prefix`, and with none of `keep`. Returns how many."""
        return finish_steps(self.forget_all_in_steps(prefix, keep))

    def forget_all_in_steps(self, prefix: str, keep: tuple[str, ...] = ()) -> Generator[None, None, int]:
        """Do the same in steps. Groups that go meanwhile count as well."""
        names, pace = (yield from self.names_in_steps(prefix, keep)), Pace()
        yield from self.keep_out_in_steps(names)
        for name in names:
            if pace.is_due(_FORGET_UNITS):
                yield
            if name in self._node().world.partitions.owner(name).shard.groups:
                yield from self.forget_in_steps(name)
        return len(names)

    def keep_out_in_steps(self, names: Iterable[str]) -> Steps[None]:
        """Let the members of these groups, which are about to go, join no group any more."""
        pace = Pace()
        for name in names:
            group = self._node().world.partitions.owner(name).shard.groups.get(name)
            members = () if group is None else group.members
            if pace.is_due(1 + len(members)):
                yield
            if members:
                self._requests.keep_out(members)

    # -- within --------------------------------------------------------------------------------------------------------

    def _remove(
        self, group_id: str, name: str, cause: Cause, reason: str = "", *, disconnects: bool = False
    ) -> MemberView:
        partition, group = self._find_group(group_id)
        member_id = self._resolve(group, name)
        (view,) = (one for one in self._view(partition, group).members if one.member_id == member_id)
        self._do(group_id, RemoveMember(group_id, member_id, cause, reason))
        if disconnects:
            self._poller.close_member("operator", (group_id, member_id), view.client_id)
        return view

    def _do(self, group_id: str, verb: Verb) -> None:
        """Give a verb to the partition that owns the group. Raises Refusal."""
        self._refuse_if_unknown(group_id)
        node = self._node()
        response = self._poller.perform(lambda now_ms: node.command(verb, now_ms, self._frontend.handler.fresh_id))
        if isinstance(response, Failure):
            raise Refusal("internal error: the server's log says why", is_conflict=True)
        if response.refusal:
            raise Refusal(response.refusal, is_conflict=True)

    def _find_group(self, group_id: str) -> tuple[Partition, Group]:
        partition = self._node().world.partitions.owner(group_id)
        group = partition.shard.groups.get(group_id)
        if group is None:
            self._refuse_if_unknown(group_id)
            raise Refusal(f"there is no group {group_id!r}", is_conflict=True)
        return partition, group

    def _refuse_if_unknown(self, group_id: str) -> None:
        if obstacle := self.find_obstacle(group_id):
            raise Refusal(obstacle, is_conflict=True)

    def _view(self, partition: Partition, group: Group) -> GroupView:
        return view_group(group, partition.shard.offsets, self._node().world.ledger.catalog.topics)

    def _resolve_all(self, group: Group, named: Named) -> dict[str, dict[str, tuple[int, ...]]]:
        """Return what is named for each member by the member's id. Raises Refusal for two names of one member."""
        found: dict[str, dict[str, tuple[int, ...]]] = {}
        for name, target in named.items():
            member_id = self._resolve(group, name)
            if member_id in found:
                raise Refusal(f"{name!r} is member {member_id}, which another name stands for as well: expected one")
            found[member_id] = {key: tuple(sorted(set(some))) for key, some in target.items() if some}
        return found

    @staticmethod
    def _resolve(group: Group, name: str) -> str:
        if name in group.members:
            return name
        members: Collection[Member] = group.members.values()
        for member in members:
            if member.instance_id == name:
                return member.member_id
        found = [member.member_id for member in members if member.client_id == name]
        if not found:
            known = ", ".join(sorted(member.client_id for member in members)) or "nobody"
            raise Refusal(
                f"there is no member {name!r} in group {group.group_id!r}: its clients are {known}", is_conflict=True
            )
        if len(found) > 1:
            raise Refusal(
                f"{len(found)} members have the client id {name!r}: expected one of {', '.join(sorted(found))}",
                is_conflict=True,
            )
        return found[0]
