"""Files of properties and `sasl.jaas.config` are read as Java reads them: 860 texts, with what Java found in them."""

import json
from pathlib import Path

import pytest

from coordinator.client.properties import read_properties
from coordinator.jaas import read_options
from coordinator.setting import ConfigError
from tests.client.java_settings import RECORDED

TRIMMED = "".join(map(chr, range(33)))
ROWS = json.loads(RECORDED.read_text())


def test_properties_are_those_that_java_reads(tmp_path: Path) -> None:
    """Only what says nothing, or has no name, is refused; Java takes it for a setting without a value."""
    file, read = tmp_path / "client.properties", 0
    for kind, text, expected in ROWS:
        if kind != "p":
            continue
        file.write_bytes(text.encode())
        try:
            found = {name: one.value for name, one in read_properties(str(file), "--command-config").items()}
        except ConfigError:
            assert expected is None or any("" in pair for pair in expected), text
        else:
            read += 1
            assert expected is not None, text
            assert found == {name: value.strip(TRIMMED) for name, value in expected if name or value}, text
    assert read > 250


def test_login_modules_are_those_that_kafka_reads() -> None:
    for kind, text, expected in ROWS:
        if kind != "j":
            continue
        if expected is None:
            with pytest.raises(ValueError, match="no login module"):
                read_options(text)
        else:
            assert read_options(text) == dict(expected)


@pytest.mark.parametrize(
    ("text", "line", "expected"),
    [
        ("# a\n\na=b\\\n  c\n\nx\n", 6, "NAME=VALUE"),
        ("a=b\r\n\r\n=x", 3, "NAME=VALUE"),
        ("a=\\\n\\\n\\u004\nb=c", 1, "four hexadecimal digits"),
        ("a=\\\\u004\nb\\u=c", 2, "four hexadecimal digits"),
    ],
)
def test_a_mistake_is_told_with_the_line_where_it_begins(text: str, line: int, expected: str, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_bytes(text.encode())
    with pytest.raises(ConfigError, match=f"^invalid {file}, line {line}: expected {expected}"):
        read_properties(str(file), "--command-config")


def test_a_value_has_the_line_where_it_begins(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_bytes(b"#\na=1\\\n\\\n2\nb=\\ud83d\\ude00\\ude00\r\rc=3\\")
    found = {name: tuple(one) for name, one in read_properties(str(file), "--command-config").items()}
    assert found == {"a": ("12", 2), "b": ("\U0001f600\ufffd", 5), "c": ("3", 7)}
    file.write_bytes(b"a=\xff")
    with pytest.raises(ConfigError, match=f"^invalid --command-config {file}: expected properties in UTF-8$"):
        read_properties(str(file), "--command-config")
