"""Static files, with a hash of their content in their path, so that browsers may keep them for a year."""

import gzip
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files

#: The files that pages load, and their content types.
ASSETS = {
    "chronos.css": "text/css; charset=utf-8",
    "chronos.js": "text/javascript; charset=utf-8",
    "htmx.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
_HASH_CHARS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Asset:
    """A static file as it is sent."""

    path: str  # below the base path
    content_type: str
    body: bytes
    compressed: bytes


def load_assets() -> Mapping[str, Asset]:
    """Read the static files of the package, by name."""
    folder = files("chronos.ui").joinpath("static")
    return {name: _make_asset(name, folder.joinpath(name).read_bytes()) for name in ASSETS}


def _make_asset(name: str, body: bytes) -> Asset:
    stem, _, suffix = name.rpartition(".")
    digest = hashlib.sha256(body).hexdigest()[:_HASH_CHARS]
    return Asset(
        path=f"/static/{stem}.{digest}.{suffix}",
        content_type=ASSETS[name],
        body=body,
        compressed=gzip.compress(body, 9, mtime=0),
    )
