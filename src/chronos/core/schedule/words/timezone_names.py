"""Time zones by common names: an IANA name in any case, or its city."""

from difflib import get_close_matches
from functools import cache
from importlib.resources import files

from chronos.core.schedule.timezones import zone_names

MAX_NAME_WORDS = 4

# Last parts of old names for regions: "east" does not mean Brazil/East.
_REGION_SUFFIXES = frozenset({"east", "west", "north", "south", "general", "continental", "act", "nsw", "lhi"})
_MIN_SIMILARITY = 0.75


def find_zones(place: str) -> list[str]:
    """Return the zones of a place in lower case: one, none, or several if the place is ambiguous."""
    name = place.replace("_", " ")
    exact = _names().get(name)
    if exact:
        return [exact]
    return _cities().get(name.replace("-", " "), [])


def find_similar_zones(place: str) -> list[str]:
    """Return zones with a similar name. The first letter must match, which keeps the search short."""
    key = place[:64].replace("_", " ").replace("-", " ")
    known = [city for city in _cities() if city[:1] == key[:1]]
    known += [name for name in _names() if "/" in name and name[:1] == key[:1] and "/" in key]
    matches = get_close_matches(key, known, n=2, cutoff=_MIN_SIMILARITY)
    return [zone for name in matches for zone in find_zones(name)]


@cache
def _names() -> dict[str, str]:
    return {name.lower().replace("_", " "): name for name in zone_names()}


@cache
def _cities() -> dict[str, list[str]]:
    """Map cities to zones. A zone that the database lists for a country precedes older names."""
    table = files("tzdata").joinpath("zoneinfo", "zone.tab").read_text("utf-8")
    listed = {line.split("\t")[2] for line in table.splitlines() if line and not line.startswith("#")}
    cities: dict[str, list[str]] = {}
    for name in sorted(zone_names(), key=lambda name: (name not in listed, name)):
        region, slash, city = name.rpartition("/")
        key = city.lower().replace("_", " ").replace("-", " ")
        if not slash or region == "Etc" or key in _REGION_SUFFIXES:
            continue
        known = cities.setdefault(key, [])
        if name in listed or not known or known[0] not in listed:
            known.append(name)
    return cities
