"""The second oracle: ignores ids, and compares runs and spans with a brute-force calendar.

It checks two things about time:

- EARLY: no attempt starts before the reference clock has shown its instant, to the millisecond. Setting the clock back
  afterwards does not matter.
- LATE: a first attempt starts at once: two seconds on a calm link; on a faulty one, the cost of a lost hint and some
  delays. The time counts from the latest of its instant, the end of the work of its job that had to end before, and the
  moment when its job was resumed or saved. Exceptions: no machine was undisturbed since everything could settle, or a
  disturbed machine had claimed it, or work of its job.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping

from chronos.core.config import Overlap, RecoveryStrategy
from chronos.core.execution import Status
from chronos.core.reasons import ReasonCode
from tests.simulation.history import ClaimNote, Run, describe_run
from tests.simulation.node_lifetimes import Instants, JobLifetime, latest_shown_us
from tests.simulation.scenario import SCHEDULED_CAUSES, Evidence
from tests.support.verdicts import Finding, Verdict

EARLY_US = 1_000
PROMPT_S = 2.0  # on a calm link; includes the second that nodes leave to a preferred node


class CalendarOracle:
    """Checks coverage and times of runs against the calendar."""

    def __init__(self, evidence: Evidence, jobs: Mapping[bytes, JobLifetime]) -> None:
        self._evidence, self._history, self._jobs = evidence, evidence.history, jobs
        self._scenario = evidence.scenario
        self._machines = [f"m{number}" for number in range(self._scenario.machines)]
        self._claims: dict[bytes, list[ClaimNote]] = defaultdict(list)  # by job
        for note in self._history.claims.values():
            self._claims[note.job].append(note)
        created = self._history.created
        self._requested = {r.id for r in evidence.records if r.cause not in SCHEDULED_CAUSES and r.id in created}
        self._runs: dict[bytes, list[Run]] = defaultdict(list)  # by job, in start order
        self._scheduled: dict[bytes, list[Run]] = defaultdict(list)  # the same without requested runs
        for run in sorted(self._history.runs, key=lambda run: run.start_s):
            self._runs[run.job].append(run)
            if run.execution not in self._requested:
                self._scheduled[run.job].append(run)

    def find(self) -> Iterator[Finding]:
        for lifetime in self._jobs.values():
            instants = lifetime.instants(self._evidence)
            yield from self._check_coverage(lifetime, instants)
            yield from self._check_early(lifetime)
            yield from self._check_late(lifetime)
            if lifetime.sim_job.overlap is Overlap.ALLOW and lifetime.deleted is None:
                yield from self._check_start_times(lifetime, instants)

    def _check_coverage(self, lifetime: JobLifetime, instants: Instants) -> Iterator[Finding]:
        """Every instant is accounted for once, and nothing else is."""
        known = instants.allowed.union(instants.required)
        claims: dict[int, set[bytes]] = defaultdict(set)
        for run in self._scheduled[lifetime.job]:
            if run.scheduled_us not in known:
                yield Finding(Verdict.PHANTOM, f"{describe_run(run)}: the calendar has no such instant")
            claims[run.scheduled_us].add(run.execution)
        for record in self._evidence.records:
            if record.job == lifetime.job and record.id not in self._requested:
                if record.scheduled_us not in known:
                    yield Finding(
                        Verdict.PHANTOM,
                        f"{lifetime.name}: on record for {record.scheduled_us}, which is not an instant",
                    )
                claims[record.scheduled_us].add(record.id)
        yield from self._check_spans(lifetime, instants, claims)
        settled_us = self._evidence.end_us - round(self._scenario.settles_s * 1e6)
        for us in sorted(known):
            if us not in instants.allowed and not claims[us] and us <= settled_us:
                yield Finding(Verdict.MISSED, f"{lifetime.name} at {us}")
            if len(claims[us]) > 1:
                yield Finding(Verdict.DUPLICATE, f"{lifetime.name} at {us} is recorded {len(claims[us])} times")

    def _check_spans(
        self, lifetime: JobLifetime, instants: Instants, claims: dict[int, set[bytes]]
    ) -> Iterator[Finding]:
        """Spans have the right count, and their instants were allowed to be left out."""
        for span in self._evidence.spans:
            if span.job != lifetime.job:
                continue
            inside = [us for us in instants.required if span.from_us <= us <= span.to_us]
            uncertain = [us for us in instants.allowed if span.from_us <= us <= span.to_us]
            if not len(inside) <= span.count <= len(inside) + len(uncertain):
                yield Finding(
                    Verdict.MISSED, f"{lifetime.name}: a span of {span.count}, the calendar has {len(inside)}"
                )
            skipped = span.status is Status.SKIPPED
            if skipped and not (lifetime.deleted if span.reason.code is ReasonCode.JOB_DELETED else lifetime.pauses):
                yield Finding(Verdict.MISSED, f"{lifetime.name} was never paused or deleted, and skipped {span.count}")
            if span.status is Status.MISSED and lifetime.sim_job.recovery is RecoveryStrategy.ALL:
                yield Finding(Verdict.MISSED, f"{lifetime.name} recovers all, and left out {span.count}")
            for us in inside:
                claims[us].add(span.id)

    # --- times

    def _check_early(self, lifetime: JobLifetime) -> Iterator[Finding]:
        for run in self._scheduled[lifetime.job]:
            by_us = run.scheduled_us - latest_shown_us(self._evidence, run.start_s, run.start_wall_us)
            if by_us > EARLY_US:
                yield Finding(Verdict.EARLY, f"{describe_run(run)} by {by_us / 1e6:.3f} s")

    def _check_late(self, lifetime: JobLifetime) -> Iterator[Finding]:
        seen: set[bytes] = set()
        ended_s = 0.0  # when work of this job last ended
        calm_from_s = self._evidence.healed_s + self._scenario.settles_s
        for run in self._runs[lifetime.job]:
            if run.execution not in seen:
                instant_s = run.start_s - (run.start_wall_us - run.scheduled_us) / 1e6
                could_s = max(
                    instant_s, lifetime.find_release_s(run.start_s), self._history.created.get(run.execution, 0.0)
                )
                if lifetime.sim_job.exclusive:
                    ended_s = max([ended_s, *(e for e in self._ends(lifetime, seen) if e <= run.start_s)])
                    could_s = max(could_s, ended_s)
                allowed_s = PROMPT_S if could_s >= calm_from_s else self._allowed_delay_s(run)
                if run.start_s - could_s > allowed_s and self._was_undisturbed(run, could_s):
                    yield Finding(Verdict.LATE, f"{describe_run(run)} by {run.start_s - could_s:.0f} s")
            seen.add(run.execution)

    def _allowed_delay_s(self, run: Run) -> float:
        """The allowed delay on a faulty link. A claim whose answer was lost is released after two heartbeats."""
        note = self._history.claims.get((run.execution, run.token))
        is_first = note is None or note.first
        return self._scenario.late_s + (0 if is_first else 2 * self._scenario.options.heartbeat_s)

    def _ends(self, lifetime: JobLifetime, executions: set[bytes]) -> Iterator[float]:
        for run in self._runs[lifetime.job]:
            if run.execution in executions and run.end_s is not None:
                yield run.end_s

    def _check_start_times(self, lifetime: JobLifetime, instants: Instants) -> Iterator[Finding]:
        """After everything healed: as many first starts as instants, each soon after its instant."""
        offset_us = self._evidence.end_us - round(self._evidence.end_s * 1e6)
        from_s = self._evidence.healed_s + self._scenario.settles_s
        coming = [(us - offset_us) / 1e6 for us in instants.required]
        runs = self._scheduled[lifetime.job]
        first = lifetime.sim_job.task_names[0]
        starts = sorted(r.start_s for r in runs if (r.task, r.number) == (first, 1) and r.start_s >= from_s)
        for due_s in coming:
            if not from_s <= due_s <= self._evidence.end_s - PROMPT_S:
                continue
            if not starts or not 0 <= starts[0] - due_s + 1e-3 <= PROMPT_S:
                yield Finding(
                    Verdict.LATE, f"{lifetime.name}: nothing started at {due_s:.0f} s, although nothing was disturbed"
                )
                return
            starts.pop(0)

    def _was_undisturbed(self, run: Run, since_s: float) -> bool:
        """Whether a machine could have started the run in time, and no disturbed machine was involved."""
        from_s, to_s = since_s - self._scenario.settles_s, run.start_s
        disturbed = {name for name in self._machines if self._history.disturbed(name, from_s, to_s)}
        if len(disturbed) == len(self._machines):
            return False
        claimed = {note.machine for note in self._claims[run.job] if from_s <= note.at_s <= to_s}
        running = {other.machine for other in self._runs[run.job] if _is_running(other, from_s, to_s)}
        return not disturbed & (claimed | running)


def _is_running(run: Run, from_s: float, to_s: float) -> bool:
    return run.start_s <= to_s and (run.end_s is None or run.end_s >= from_s)
