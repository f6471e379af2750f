"""The third oracle: what people said was obeyed, from the moment the store had heard it.

After a pause nothing begins that had not begun (but what is asked for by hand), after a cancellation nothing of that
execution, after a deletion nothing of that job; what runs then stops with the next heartbeat. After an update nothing
begins under the version before.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping

from chronos.core.execution import Cause
from tests.simulation.history import ClaimNote, Deed, Run
from tests.simulation.node_lifetimes import Life
from tests.simulation.scenario import Evidence
from tests.simulation.verdicts import Finding, Verdict, shown


class ByWish:
    def __init__(self, evidence: Evidence, jobs: Mapping[bytes, Life]) -> None:
        self._evidence, self._history, self._jobs = evidence, evidence.history, jobs
        self._records = {record.id: record for record in evidence.records}
        self._canceled = {c.job: c.at_s for c in reversed(self._history.changes) if c.deed is Deed.CANCEL}
        self._runs: dict[bytes, list[Run]] = defaultdict(list)
        for run in self._history.runs:
            self._runs[run.execution].append(run)

    def findings(self) -> Iterator[Finding]:
        for note in self._history.claims.values():
            yield from self._claim(note)
        for execution, at_s in self._canceled.items():
            yield from self._stops(self._runs[execution], at_s)
        for life in self._jobs.values():
            if life.deleted is not None:
                yield from self._stops([r for r in self._history.runs if r.job == life.job], life.deleted.at_s)

    def _claim(self, note: ClaimNote) -> Iterator[Finding]:
        record = self._records.get(note.execution)
        if record is None:
            return  # the first oracle's business
        life = self._jobs[record.job]
        what = f"{life.name} {note.execution.hex()[:12]} token {note.token} at {note.at_s:.0f} s"
        if note.first and record.cause is not Cause.MANUAL and life.held(note.at_s):
            yield Finding(Verdict.IGNORED, f"{what} began while its job was paused")
        if note.at_s > self._canceled.get(note.execution, self._evidence.end_s):
            yield Finding(Verdict.IGNORED, f"{what} began after it had been canceled")
        if life.deleted is not None and note.at_s > life.deleted.at_s:
            yield Finding(Verdict.IGNORED, f"{what} began after its job had been deleted")
        if note.first and note.behind > 0:
            yield Finding(Verdict.OUTDATED, f"{what}: {note.behind} versions behind")

    def _stops(self, runs: list[Run], at_s: float) -> Iterator[Finding]:
        """What went on when it was asked to stop, and does so long after on a machine that is well."""
        scenario = self._evidence.scenario
        before_s = at_s - scenario.odds.refused_s  # who tried then may still wait
        by_s = at_s + scenario.options.heartbeat_s + scenario.options.grace_s + 15 * scenario.odds.longest_s
        for run in runs:
            until_s = self._evidence.end_s if run.end_s is None else run.end_s
            if run.start_s <= at_s and until_s > by_s and not self._history.disturbed(run.machine, before_s, by_s):
                yield Finding(Verdict.IGNORED, f"{shown(run)} was asked to stop at {at_s:.0f} s")
