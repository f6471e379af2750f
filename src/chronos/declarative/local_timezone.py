"""Which time zone the host is in, by its IANA name: ``TZ``, ``/etc/localtime``, ``/etc/timezone``, else UTC."""

import os
from collections.abc import Mapping
from pathlib import Path

from chronos.core.schedule.timezones import get_zone
from chronos.errors import Invalid

_ETC = Path("/etc")
_MARK = "zoneinfo/"


def local_zone(environ: Mapping[str, str] = os.environ, etc: Path = _ETC) -> str:
    """The name of the host's zone. Raises ``Invalid`` where the host does not say it by name."""
    if said := environ.get("TZ", "").removeprefix(":"):
        return _known(said.partition(_MARK)[2] or said, f"TZ={environ['TZ']}")
    localtime = etc / "localtime"
    if localtime.is_symlink():
        target = os.path.realpath(localtime)
        if _MARK in target:
            return _known(target.rpartition(_MARK)[2].removeprefix("posix/"), str(localtime))
    named = etc / "timezone"
    if named.is_file():
        return _known(named.read_text().split("#")[0].strip(), str(named))
    if localtime.exists():
        raise Invalid(f"{localtime} does not say which zone it is; set TZ, or give the scheduler a timezone")
    return "UTC"


def _known(name: str, source: str) -> str:
    try:
        return get_zone(name).name
    except LookupError:
        raise Invalid(
            f'{source} names the zone "{name}", which Chronos does not know; set TZ to a name like Europe/Berlin, '
            "or give the scheduler a timezone"
        ) from None
