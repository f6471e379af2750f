"""Numbered versions of the server's defaults and of the namespaces' settings.

A version never changes. Scope 0 has the defaults; every other scope is the number of a namespace.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from chronos.core.config import NOTHING_SET, Settings
from chronos.core.settings.levels import Levels
from chronos.store.contract import CurrentLevels
from chronos.store.sql.query import Dialect, Query, Rows, Steps

SERVER_SCOPE = 0
_encode = msgspec.json.Encoder(order="deterministic").encode
_decoder = msgspec.json.Decoder(Settings)


class NamespaceLevel(NamedTuple):
    """A namespace with the settings in force: its own, and the server's defaults."""

    number: int
    name: str
    levels: Levels
    defaults: Settings
    settings: Settings


def write_settings_text(settings: Settings) -> str:
    """Return settings as text, equal for equal settings."""
    return _encode(settings).decode()


def read_settings_text(text: str | None) -> Settings:
    """Read the text of ``write_settings_text``."""
    return NOTHING_SET if text is None else _decoder.decode(text)


class LevelRows:
    """Reads and writes the levels of the cascade."""

    def __init__(self, d: Dialect) -> None:
        self._defaults = "select number, settings from settings_version where scope = 0 order by number desc limit 1"
        columns = """
            select n.number, n.name, n.version, s.settings from namespace as n
            left join settings_version as s on s.scope = n.number and s.number = n.version"""
        self._all = f"{columns} order by n.number"
        self._named = f"{columns} where {d.one_of('n.name', 1, 't')} order by n.number"
        self._highest = "select coalesce(max(number), 0) from namespace"
        self._insert = f"""
            insert into namespace (number, name, created_us, updated_us)
            select number, name, $1, $1 from {d.rows(2, "number:n name:t")} as i"""
        self._insert_version = """
            insert into settings_version (scope, number, settings, saved_us, author) values ($1, $2, $3, $4, $5)"""
        self._last_number = "select coalesce(max(number), 0) from settings_version where scope = $1"
        self._at = f"""
            select n.name, s.number, s.settings from {d.rows(1, "namespace:t number:n")} as i
            join namespace as n on n.name = i.namespace
            join settings_version as s on s.scope = n.number and s.number = i.number where {d.within("n.name", 1)}"""
        self._defaults_at = f"""
            select number, settings from settings_version where scope = 0 and {d.one_of("number", 1, "n")}"""

    def current_defaults(self) -> Steps[tuple[int, Settings]]:
        """Return the number and the settings of the server's defaults; (0, nothing) if there are none."""
        rows = yield Query(self._defaults)
        return (rows[0][0], read_settings_text(rows[0][1])) if rows else (0, NOTHING_SET)

    def all(self) -> Steps[list[NamespaceLevel]]:
        """Return every namespace, by number."""
        return (yield from self._read(Query(self._all)))

    def find(self, names: Iterable[str]) -> Steps[dict[str, NamespaceLevel]]:
        """Return namespaces by name. Those without a record are left out."""
        query = Query(self._named, rows=Rows("t", [(name,) for name in sorted(names)]))
        return {level.name: level for level in (yield from self._read(query))}

    def current(self, names: Iterable[str]) -> Steps[dict[str, CurrentLevels]]:
        """See ``Store.current_levels``."""
        found = yield from self.find(names)
        if len(found) == len(set(names)):
            return {name: CurrentLevels(level.levels, level.defaults, level.settings) for name, level in found.items()}
        number, defaults = yield from self.current_defaults()
        unknown = CurrentLevels(Levels(number, 0), defaults, NOTHING_SET)
        return {
            name: CurrentLevels(found[name].levels, found[name].defaults, found[name].settings)
            if name in found
            else unknown
            for name in names
        }

    def find_or_create(self, names: Iterable[str], now_us: int) -> Steps[dict[str, NamespaceLevel]]:
        """Return namespaces by name. Missing ones are created; the caller holds the mutex."""
        found = yield from self.find(names)
        missing = sorted(set(names) - found.keys())
        if missing:
            [(highest,)] = yield Query(self._highest)
            numbered = [(highest + 1 + place, name) for place, name in enumerate(missing)]
            yield Query(self._insert, (now_us,), Rows("nt", numbered))
            found |= yield from self.find(missing)
        return found

    def add_version(self, scope: int, settings: Settings, now_us: int, author: str) -> Steps[int]:
        """Write the next version of a scope. Returns its number."""
        [(last,)] = yield Query(self._last_number, (scope,))
        yield Query(self._insert_version, (scope, last + 1, write_settings_text(settings), now_us, author))
        return int(last) + 1

    def settings_at(self, pairs: Sequence[tuple[str, int]]) -> Steps[Mapping[tuple[str, int], Settings]]:
        """Return versions by (namespace, number); an empty namespace means the server's defaults."""
        numbers = sorted({number for namespace, number in pairs if not namespace})
        named = sorted({pair for pair in pairs if pair[0]})
        found: dict[tuple[str, int], Settings] = {}
        if numbers:
            rows = yield Query(self._defaults_at, rows=Rows("n", [(number,) for number in numbers]))
            found |= {("", number): read_settings_text(text) for number, text in rows}
        if named:
            rows = yield Query(self._at, rows=Rows("tn", named))
            found |= {(namespace, number): read_settings_text(text) for namespace, number, text in rows}
        return found

    def _read(self, query: Query) -> Steps[list[NamespaceLevel]]:
        defaults_number, defaults = yield from self.current_defaults()
        return [
            NamespaceLevel(number, name, Levels(defaults_number, version), defaults, read_settings_text(text))
            for number, name, version, text in (yield query)
        ]
