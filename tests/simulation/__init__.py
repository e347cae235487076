"""Whole days of a group: members that come, go, crash and lose the network, and a server that restarts, under a seed.

`python -m tests.simulation --seed 7 --hours 24` plays one; the same seed plays the same day, to the byte.
"""
