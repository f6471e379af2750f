"""The configuration for display: every setting as a user would write it, without secrets."""

from typing import Any, NamedTuple

from chronos.assembly import hide_url_password
from chronos.server.config import Config
from chronos.server.default_settings import optional_duration
from chronos.server.setting_readers import Setting, address, duration, size
from chronos.server.settings import SETTINGS
from chronos.server.sockets import format_address

HIDDEN = "…"
_UNITS = ((3600, "h"), (60, "m"), (1, "s"))


class SettingRow(NamedTuple):
    """One setting with its value for programs (``value``) and for people (``text``)."""

    name: str
    value: Any
    text: str
    origin: str
    about: str


def setting_rows(config: Config) -> list[SettingRow]:
    """Return all settings in the order of the documentation."""
    rows = []
    for setting in SETTINGS:
        value = display_value(setting, config[setting.name])
        origin = config.origins[setting.name]
        rows.append(SettingRow(setting.name, value, format_text(value), origin, setting.about))
    return rows


def display_value(setting: Setting, value: Any) -> Any:
    """Return a value as a user would write it, without secrets."""
    if setting.secret:
        return dict.fromkeys(sorted(value), HIDDEN)
    if setting.name == "store":
        return hide_url_password(value)
    if setting.read is address:
        return format_address(*value)
    if value is not None and setting.read in (duration, optional_duration):
        return format_duration(value)
    if setting.read is size:
        return format_size(value)
    return list(value) if isinstance(value, tuple) else value


def format_duration(seconds: float) -> str:
    """Return ``1h30m`` for 5400.0."""
    remaining = int(seconds)
    if remaining != seconds:
        return f"{seconds:g}s"
    parts = []
    for length, unit in _UNITS:
        count, remaining = divmod(remaining, length)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


def format_size(count: int) -> str:
    """Return ``2MiB`` for 2097152."""
    for unit, width in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if count % (1 << width) == 0:
            return f"{count >> width}{unit}"
    return f"{count}B"


def format_text(value: Any) -> str:
    """Return a value for a table."""
    match value:
        case None:
            return "-"
        case bool():
            return "true" if value else "false"
        case list():
            return ", ".join(map(str, value)) or "-"
        case dict():
            return ", ".join(f"{name}: {item}" for name, item in value.items()) or "-"
        case _:
            return str(value) if value != "" else "-"
