"""The one form in which addresses are shown and compared."""

import pytest

from coordinator.core.addresses import literal_address


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("/127.0.0.1", "127.0.0.1"),
        ("/::1", "0:0:0:0:0:0:0:1"),
        ("/2001:db8::ff00:42", "2001:db8:0:0:0:0:ff00:42"),
        ("/::ffff:10.0.0.1", "10.0.0.1"),
        ("fe80::1%eth0", "fe80:0:0:0:0:0:0:1"),
        ("", ""),
    ],
)
def test_addresses_are_those_that_java_writes(host: str, address: str) -> None:
    assert literal_address(host) == address
    assert literal_address(address) == address
