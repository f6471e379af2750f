"""The whole cascade of settings as one table: values, built-in default, and the levels that may set each.

``chronos config settings`` prints it, and the documentation contains it; a test compares the two.
"""

from typing import NamedTuple

from chronos.core.settings.cascade import Level
from chronos.server.config_display import display_value, format_text
from chronos.server.default_settings import DEFAULT_SETTINGS, PREFIX
from chronos.service.settings.effective import TASK_SETTINGS

_SHARED_LEVELS = (Level.SERVER, Level.NAMESPACE, Level.JOB)


class CascadeRow(NamedTuple):
    """One field of one setting."""

    name: str
    default: str
    levels: tuple[Level, ...]
    about: str


def cascade_rows() -> list[CascadeRow]:
    """Return a row for each field of each setting."""
    rows: list[CascadeRow] = []
    for setting in DEFAULT_SETTINGS:
        name = setting.name.removeprefix(PREFIX)
        may_override = name.partition(".")[0] in TASK_SETTINGS
        levels = (*_SHARED_LEVELS, Level.TASK) if may_override else _SHARED_LEVELS
        rows.append(CascadeRow(name, format_text(display_value(setting, setting.default)), levels, setting.about))
    return rows


def to_markdown() -> str:
    """Return the table as Markdown, for the documentation."""
    lines = ["| setting | default | levels | meaning |", "|---|---|---|---|"]
    for row in cascade_rows():
        default = "none" if row.default == "-" else f"`{row.default}`"
        lines.append(f"| `{row.name}` | {default} | {', '.join(row.levels)} | {row.about} |")
    return "\n".join(lines) + "\n"
