"""Histories of a whole node: its frontend, codec, logs and janitor over a disk that crashes, and clients of all kinds.

`python -m tests.simulation --seed 7` plays one; the same seed plays the same history, to the byte.
"""
