"""Records with everything that a record may have."""

from __future__ import annotations

from hypothesis import strategies as st

from protocol.records import Record

TIMES = st.integers(-1, 2**60)

HEADERS = st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=200)), max_size=3).map(tuple)

RECORDS = st.builds(
    Record,
    key=st.none() | st.binary(max_size=200),
    value=st.none() | st.binary(max_size=200),
    headers=HEADERS,
    timestamp=TIMES,
)
