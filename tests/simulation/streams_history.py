"""A history of one node with two applications of Kafka Streams, beside a group of consumers."""

from collections.abc import Callable
from typing import Any, Final, cast

from tests.requests import alter_configs
from tests.simulation.admin import GROUP
from tests.simulation.history import History, Report
from tests.simulation.members import Member
from tests.simulation.streams_members import Application, StreamsMember

APPLICATIONS: Final = ("s0", "s1")


class StreamsHistory(History):
    """Members of applications come and go like others; besides, versions are deployed and standbys asked for."""

    groups = ("g0", *APPLICATIONS)
    sizes = (5, 8, 11)

    def more_settings(self) -> dict[str, Any]:
        self.applications = {group: Application(group, self._dice) for group in APPLICATIONS}
        return {
            "group_streams_initial_rebalance_delay_ms": self._dice.choice((0, 3_000)),
            "group_streams_assignment_interval_ms": self._dice.choice((0, 1_000)),
            "group_streams_num_standby_replicas": self._dice.choice((0, 1)),
        }

    def _member(self, number: int, kind: type[Member] | None = None) -> Member:
        group = self.groups[number % len(self.groups)]
        if group not in self.applications:
            return super()._member(number, kind)
        return StreamsMember(f"m{number}", self.applications[group], self.network)

    def _troubles(self) -> list[tuple[Callable[[], object], int]]:
        return [*super()._troubles(), (self._deploy, 2), (self._ask_for_standbys, 3)]

    def _migrate(self) -> None:
        """Members of an application have no other protocol to come back with: their processes are upgraded."""
        number = self._dice.randrange(len(self.members))
        member = self.members[number]
        if isinstance(member, StreamsMember):
            member.stop()
            member.start()
        else:
            self._migrate_member(number)

    def _deploy(self) -> None:
        """Replace an application by another version: all of its processes are stopped, and the new ones started."""
        application = self.applications[self._dice.choice(APPLICATIONS)]
        application.deploy()
        for member in self.members:
            if member.group == application.group and member.is_alive:
                self._dice.choice((member.stop, member.crash))()
                member.start()

    def _ask_for_standbys(self) -> None:
        group, count = self._dice.choice(APPLICATIONS), self._dice.choice(("0", "1", "2", None))
        self.admin.tell(alter_configs(GROUP, group, {"streams.num.standby.replicas": count}), 1)

    def _check_settled(self, group: str, alive: list[Member]) -> None:
        if group in self.applications:
            self.promises.tasks.check_settled(self.server, group, cast("list[StreamsMember]", alive))
        else:
            super()._check_settled(group, alive)


def play(seed: int, rounds: int = 1, *, has_moves: bool = False) -> Report:
    """Play the history of a seed."""
    return StreamsHistory(seed, rounds, has_moves=has_moves).play()
