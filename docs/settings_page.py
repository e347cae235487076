"""`docs/settings.md`: every setting of the broker, read off `coordinator/config.py`."""

from collections.abc import Iterator
from typing import Final

from coordinator.config import SETTINGS
from coordinator.setting import Setting, format_value

INTRODUCTION: Final = """\
# Settings

<!-- This page is written by `python -m docs.generate` from `coordinator/config.py`. -->

The settings of the broker, by Kafka's names, with Kafka's defaults unless the last column says otherwise.
[Usage](usage.md#settings) says how to set them, and `muster config NAME` explains one. All other settings of Kafka are
accepted without effect.

| setting | default | expected | what it does |
| --- | --- | --- | --- |
"""


def page() -> str:
    """The whole page."""
    return INTRODUCTION + "\n".join(rows()) + "\n"


def rows() -> Iterator[str]:
    for setting in SETTINGS:
        unit = f" {setting.unit}" if setting.unit else ""
        default = f"`{format_value(setting.default)}`{unit}" if format_value(setting.default) else "none"
        yield f"| `{setting.name}` | {default} | {setting.may_be} | {setting.sentence}{difference(setting)} |"


def difference(setting: Setting) -> str:
    """How the default differs from Kafka's, and why; nothing if it does not."""
    if setting.kafka_default is None:
        return ""
    return f" Kafka's default is {format_value(setting.kafka_default)}; ours differs because {setting.why}."
