"""The checksum of batches: CRC-32C, and not another one; by the compiled module, or else by the package around it."""

import pytest
from crc32c import crc32c as package_crc32c

from protocol import checksum

CHECK = 0xE3069283  # of the digits 1 to 9, as catalogues of checksums have it


@pytest.mark.parametrize("find", [checksum._find, checksum._import_extension])
def test_the_checksum_is_crc_32c(find: object) -> None:
    crc32c = find()  # type: ignore[operator]  # either function
    assert crc32c(b"123456789") == CHECK
    assert crc32c(b"6789", crc32c(b"12345")) == CHECK


def test_a_package_without_the_compiled_module_gives_its_own_function(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checksum.PathFinder, "find_spec", lambda name, path=None, target=None: None)
    assert checksum._import_extension() is None
    monkeypatch.setattr(checksum, "_import_extension", lambda: None)
    assert checksum._find() is package_crc32c
