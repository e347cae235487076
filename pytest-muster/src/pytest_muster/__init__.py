"""Steer a Muster server from tests: its clock, its groups, its faults. `pytest_muster.plugin` has the fixtures."""

from pytest_muster.admin import Admin, ExpectationError, MusterError
from pytest_muster.muster import Clock, Fault, Group, Member, Muster, Records
from pytest_muster.server import Server

__all__ = [
    "Admin",
    "Clock",
    "ExpectationError",
    "Fault",
    "Group",
    "Member",
    "Muster",
    "MusterError",
    "Records",
    "Server",
]
