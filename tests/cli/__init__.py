"""Tests of coordinator/cli."""
