"""Finds the IANA name of the host's time zone: from ``TZ``, ``/etc/localtime`` or ``/etc/timezone``, else UTC."""

import os
from collections.abc import Mapping
from pathlib import Path

from chronos.core.schedule.timezones import get_zone
from chronos.errors import Invalid

_ETC = Path("/etc")
_ZONEINFO = "zoneinfo/"


def find_local_zone(environ: Mapping[str, str] = os.environ, etc: Path = _ETC) -> str:
    """The name of the host's time zone. Raises ``Invalid`` where the host has no name for it."""
    if variable := environ.get("TZ", "").removeprefix(":"):
        return _check_zone(variable.partition(_ZONEINFO)[2] or variable, f"TZ={environ['TZ']}")
    localtime = etc / "localtime"
    if localtime.is_symlink():
        target = os.path.realpath(localtime)
        if _ZONEINFO in target:
            return _check_zone(target.rpartition(_ZONEINFO)[2].removeprefix("posix/"), str(localtime))
    name_file = etc / "timezone"
    if name_file.is_file():
        return _check_zone(name_file.read_text().split("#")[0].strip(), str(name_file))
    if localtime.exists():
        raise Invalid(f"{localtime} does not name its time zone; set TZ, or pass timezone to the scheduler")
    return "UTC"


def _check_zone(name: str, source: str) -> str:
    try:
        return get_zone(name).name
    except LookupError:
        raise Invalid(
            f'{source} names the unknown time zone "{name}"; set TZ to a name like Europe/Berlin, '
            "or pass timezone to the scheduler"
        ) from None
