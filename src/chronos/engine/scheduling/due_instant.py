"""DueInstant: one prepared instant of one job."""

from msgspec import Struct

from chronos.core.concurrency_key import find_key_gate, key_limit
from chronos.core.config import Overlap
from chronos.core.execution import Cause
from chronos.core.execution_detail import Detail, write_detail
from chronos.core.planner import Firing
from chronos.engine.job_catalog import CatalogEntry
from chronos.store.commands import AdmitRow, RunRow

_MIN_MISSED_LATENESS_US = 1_000_000  # a shorter delay is normal load, never a missed instant


class DueInstant(Struct, frozen=True):
    """An instant that is ready to be admitted."""

    entry: CatalogEntry
    firing: Firing
    needs_gate_lock: bool

    def is_missed(self, now_us: int) -> bool:
        """Return whether the instant is later than the job's recovery setting tolerates."""
        after_us = max(self.entry.effective.recovery_after_us, _MIN_MISSED_LATENESS_US)
        return now_us - self.firing.due_us > after_us

    def has_next_due(self, now_us: int) -> bool:
        """Return whether the next instant is due too, and would be skipped because this one overlaps it."""
        entry, next_us = self.entry, self.firing.next_us
        if next_us is None or next_us > now_us or entry.effective.overlap is not Overlap.SKIP:
            return False
        return entry.instants is not None and entry.instants.due_us(next_us) <= now_us

    def to_row(self, *, claim: bool) -> AdmitRow:
        """Build the row that admits the instant on time."""
        entry, firing = self.entry, self.firing
        key, limit = _to_concurrency_key(entry)
        return AdmitRow(
            entry.job,
            entry.version,
            firing.scheduled_us,
            firing.next_us,
            firing.id,
            firing.due_us,
            claim,
            self.needs_gate_lock,
            key,
            limit,
            entry.levels,
        )


def to_run_row(entry: CatalogEntry, firing: Firing, cause: Cause) -> RunRow:
    """Build the row that admits a late instant together with others."""
    key, limit = _to_concurrency_key(entry)
    detail = None if firing.covers is None else write_detail(Detail(span=firing.covers))
    return RunRow(firing.id, cause, firing.scheduled_us, firing.due_us, detail, key, limit)


def _to_concurrency_key(entry: CatalogEntry) -> tuple[bytes | None, int]:
    if entry.effective.key is None:
        return None, 0
    key = find_key_gate(entry.effective, namespace=entry.namespace, name=entry.name, payload=entry.spec.payload)
    return key, key_limit(entry.effective)
