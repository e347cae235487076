"""The long run: histories of a whole node, sequences of random requests, crashes of the logs and SIGKILL rounds, for given minutes.

`python -m tests.campaign --minutes 60` adds a line a run to `tests/campaign/results.jsonl` and writes
`docs/RELIABILITY.md` from all of them. `--page` writes the page alone.
"""
