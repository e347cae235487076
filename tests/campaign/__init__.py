"""The long run: histories of a whole node, sequences of random requests, crashes of the logs and SIGKILL rounds.

`python -m tests.campaign --full --seed 100000` is the whole of it, hours long; `--minutes 60` does as much as fits into
an hour. Both add a line for each part to `tests/campaign/results.jsonl`, and write `docs/RELIABILITY.md` from all of them.
`--only kills --count 1000` is one part, so that several processes can share a campaign: `page.py` adds up what one commit
has. `--page` writes the page alone.
"""
