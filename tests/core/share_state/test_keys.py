"""The names of share partitions: each is read as the one that it was made of, and nothing else is one."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.core.share_state.keys import coordinator_key, read_coordinator_key
from coordinator.core.share_state.values import StateKey

ID = bytes(range(16))
TEXT = base64.urlsafe_b64encode(ID).decode().rstrip("=")


@given(st.text(min_size=1).filter(str.strip), st.binary(min_size=16, max_size=16), st.integers(-(2**31), 2**31 - 1))
def test_a_name_is_read_as_what_it_was_made_of(group_id: str, topic_id: bytes, partition: int) -> None:
    """Whatever a group's id looks like, also with colons."""
    key = StateKey(group_id, topic_id, partition)
    assert read_coordinator_key(coordinator_key(key)) == key


def test_a_name_has_the_topic_id_as_kafka_writes_it() -> None:
    """`Uuid.toString`: the alphabet for URLs, without padding. Another text has another hash, and so another broker."""
    assert coordinator_key(StateKey("g", b"\xfb\xef\xbe" * 5 + b"\xff", 3)) == "g:--------------------_w:3"
    assert read_coordinator_key("g:++++++++++++++++++++/w:3") is None


@pytest.mark.parametrize(
    "name",
    [
        *(
            "",
            ":",
            "g",
            f"g:{TEXT}",
            f"g:{TEXT}:",
            f":{TEXT}:0",
            f" :{TEXT}:0",
            f"g:{TEXT}:x",
            f"g:{TEXT}:0x1",
            f"g:{TEXT}:+",
        ),
        *(f"g:{TEXT}:2147483648", f"g:{TEXT}:-2147483649", f"g:{TEXT}:00000000001", f"g:{TEXT}:\u0661"),
        *(
            f"g:{TEXT[:-2]}:0",
            f"g:{TEXT}AA:0",
            f"g:{TEXT}AAAAAAAA:0",
            f"g:{TEXT[:-1]}!:0",
            f"g:{TEXT[:-1]}\u00e9:0",
            "g::0",
        ),
    ],
)
def test_other_texts_name_none(name: str) -> None:
    assert read_coordinator_key(name) is None


@pytest.mark.parametrize("partition", ["2147483647", "-2147483648", "+7", "0000000007"])
def test_a_partition_is_any_number_of_32_bits(partition: str) -> None:
    assert read_coordinator_key(f"g:{TEXT}:{partition}") == StateKey("g", ID, int(partition))
    assert read_coordinator_key(f"g:{TEXT}==:{partition}:") == StateKey("g", ID, int(partition))
