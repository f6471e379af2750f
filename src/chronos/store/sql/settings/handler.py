"""Steps for SetDefaults and ProfileGates. The same on every engine."""

from chronos.store.commands import ProfileGates, SetDefaults
from chronos.store.sql.append_only import AppendOnlyTables
from chronos.store.sql.query import Dialect, Query, Steps
from chronos.store.sql.settings.profiles import ProfileRows
from chronos.store.sql.settings.versions import SERVER_SCOPE, LevelRows


class SettingsHandler:
    """Changes the levels above jobs."""

    def __init__(self, d: Dialect, records: AppendOnlyTables) -> None:
        self._records, self._levels, self._profiles = records, LevelRows(d), ProfileRows(d)
        self._mutex = d.mutex()

    def set_defaults(self, command: SetDefaults) -> Steps[int]:
        """See ``SetDefaults``."""
        if self._mutex:
            yield Query(self._mutex)
        number, current = yield from self._levels.current_defaults()
        if current == command.settings:
            return number
        number = yield from self._levels.add_version(SERVER_SCOPE, command.settings, command.now_us, command.actor.name)
        yield from self._profiles.resolve_again()
        detail = f"number {number}"
        yield from self._records.audit(command.actor, "set defaults", "", "defaults", command.now_us, detail)
        return number

    def profile_gates(self, command: ProfileGates) -> Steps[int]:
        """See ``ProfileGates``."""
        return (yield from self._profiles.profile_gates(command))
