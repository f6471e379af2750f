"""The second oracle: takes no notice of ids, and holds runs and spans against a brute-force calendar.

In time means two things:

- EARLY: no try begins before the clock that instants are measured by has shown its instant, to the millisecond; that
  it is set back afterwards takes nothing away.
- LATE: a first try begins at once (two seconds on calm wires; on faulty ones what a lost hint and some delays cost)
  after the latest of its instant, the end of the work of its job that had to end before it, and the moment when its job
  was resumed or saved; unless no machine was well since everything could settle, or one that was not had taken it, or
  work of its job.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping

from chronos.core.config import Overlap, RecoveryStrategy
from chronos.core.execution import Status
from chronos.core.reasons import ReasonCode
from tests.simulation.history import ClaimNote, Run
from tests.simulation.node_lifetimes import Instants, Life, highest_us
from tests.simulation.scenario import BY_CALENDAR, Evidence
from tests.simulation.verdicts import Finding, Verdict, shown

EARLY_US = 1_000
PROMPT_S = 2.0  # nothing is lost and nobody is missing: at the latest with the second that nodes leave each other


class ByCalendar:
    def __init__(self, evidence: Evidence, jobs: Mapping[bytes, Life]) -> None:
        self._evidence, self._history, self._jobs = evidence, evidence.history, jobs
        self._scenario = evidence.scenario
        self._machines = [f"m{number}" for number in range(self._scenario.machines)]
        self._claims: dict[bytes, list[ClaimNote]] = defaultdict(list)  # by job
        for note in self._history.claims.values():
            self._claims[note.job].append(note)
        created = self._history.created
        self._asked = {r.id for r in evidence.records if r.cause not in BY_CALENDAR and r.id in created}
        self._runs: dict[bytes, list[Run]] = defaultdict(list)  # by job, in the order of their starts
        self._scheduled: dict[bytes, list[Run]] = defaultdict(list)  # the same without what somebody asked for
        for run in sorted(self._history.runs, key=lambda run: run.start_s):
            self._runs[run.job].append(run)
            if run.execution not in self._asked:
                self._scheduled[run.job].append(run)

    def findings(self) -> Iterator[Finding]:
        for life in self._jobs.values():
            instants = life.instants(self._evidence)
            yield from self._covered(life, instants)
            yield from self._early(life)
            yield from self._late(life)
            if life.behaves.overlap is Overlap.ALLOW and life.deleted is None:
                yield from self._by_time_alone(life, instants)

    def _covered(self, life: Life, instants: Instants) -> Iterator[Finding]:
        """Every instant is accounted for once, and nothing else is."""
        known = instants.allowed.union(instants.required)
        claims: dict[int, set[bytes]] = defaultdict(set)
        for run in self._scheduled[life.job]:
            if run.scheduled_us not in known:
                yield Finding(Verdict.PHANTOM, f"{shown(run)}: the calendar has no such instant")
            claims[run.scheduled_us].add(run.execution)
        for record in self._evidence.records:
            if record.job == life.job and record.id not in self._asked:
                if record.scheduled_us not in known:
                    yield Finding(Verdict.PHANTOM, f"{life.name}: on record for {record.scheduled_us}, no instant")
                claims[record.scheduled_us].add(record.id)
        yield from self._spans(life, instants, claims)
        settled_us = self._evidence.end_us - round(self._scenario.settles_s * 1e6)
        for us in sorted(known):
            if us not in instants.allowed and not claims[us] and us <= settled_us:
                yield Finding(Verdict.MISSED, f"{life.name} at {us}")
            if len(claims[us]) > 1:
                yield Finding(Verdict.DUPLICATE, f"{life.name} at {us} is there {len(claims[us])} times")

    def _spans(self, life: Life, instants: Instants, claims: dict[int, set[bytes]]) -> Iterator[Finding]:
        """What was left out as a whole is counted right, and was allowed to be left out."""
        for span in self._evidence.spans:
            if span.job != life.job:
                continue
            inside = [us for us in instants.required if span.from_us <= us <= span.to_us]
            doubtful = [us for us in instants.allowed if span.from_us <= us <= span.to_us]
            if not len(inside) <= span.count <= len(inside) + len(doubtful):
                yield Finding(Verdict.MISSED, f"{life.name}: a span of {span.count}, the calendar has {len(inside)}")
            left_out = span.status is Status.SKIPPED
            if left_out and not (life.deleted if span.reason.code is ReasonCode.JOB_DELETED else life.pauses):
                yield Finding(Verdict.MISSED, f"{life.name} was never off, and skipped {span.count}")
            if span.status is Status.MISSED and life.behaves.recovery is RecoveryStrategy.ALL:
                yield Finding(Verdict.MISSED, f"{life.name} recovers all, and left out {span.count}")
            for us in inside:
                claims[us].add(span.id)

    # --- in time

    def _early(self, life: Life) -> Iterator[Finding]:
        for run in self._scheduled[life.job]:
            by_us = run.scheduled_us - highest_us(self._evidence, run.start_s, run.start_wall_us)
            if by_us > EARLY_US:
                yield Finding(Verdict.EARLY, f"{shown(run)} by {by_us / 1e6:.3f} s")

    def _late(self, life: Life) -> Iterator[Finding]:
        seen: set[bytes] = set()
        ended_s = 0.0  # when work of this job last ended or began
        calm_from_s = self._evidence.healed_s + self._scenario.settles_s
        for run in self._runs[life.job]:
            if run.execution not in seen:
                instant_s = run.start_s - (run.start_wall_us - run.scheduled_us) / 1e6
                could_s = max(instant_s, life.let_go_s(run.start_s), self._history.created.get(run.execution, 0.0))
                if life.behaves.exclusive:
                    ended_s = max([ended_s, *(e for e in self._ends(life, seen) if e <= run.start_s)])
                    could_s = max(could_s, ended_s)
                patience_s = PROMPT_S if could_s >= calm_from_s else self._patience_s(run)
                if run.start_s - could_s > patience_s and self._well(run, could_s):
                    yield Finding(Verdict.LATE, f"{shown(run)} by {run.start_s - could_s:.0f} s")
            seen.add(run.execution)

    def _patience_s(self, run: Run) -> float:
        """On faulty wires; who was given it and never heard of that gives it back after two heartbeats."""
        note = self._history.claims.get((run.execution, run.token))
        heard = note is None or note.first
        return self._scenario.late_s + (0 if heard else 2 * self._scenario.options.heartbeat_s)

    def _ends(self, life: Life, executions: set[bytes]) -> Iterator[float]:
        for run in self._runs[life.job]:
            if run.execution in executions and run.end_s is not None:
                yield run.end_s

    def _by_time_alone(self, life: Life, instants: Instants) -> Iterator[Finding]:
        """After everything healed: as many first starts as instants, each soon after its own, whatever they claim."""
        offset_us = self._evidence.end_us - round(self._evidence.end_s * 1e6)
        from_s = self._evidence.healed_s + self._scenario.settles_s
        coming = [(us - offset_us) / 1e6 for us in instants.required]
        runs = self._scheduled[life.job]
        first = life.behaves.task_names[0]
        starts = sorted(r.start_s for r in runs if (r.task, r.number) == (first, 1) and r.start_s >= from_s)
        for due_s in coming:
            if not from_s <= due_s <= self._evidence.end_s - PROMPT_S:
                continue
            if not starts or not 0 <= starts[0] - due_s + 1e-3 <= PROMPT_S:
                yield Finding(Verdict.LATE, f"{life.name}: nothing began at {due_s:.0f} s, though all was well")
                return
            starts.pop(0)

    def _well(self, run: Run, since_s: float) -> bool:
        """Whether somebody could have begun it in time, and nobody who was not well had anything to do with it."""
        from_s, to_s = since_s - self._scenario.settles_s, run.start_s
        unwell = {name for name in self._machines if self._history.disturbed(name, from_s, to_s)}
        if len(unwell) == len(self._machines):
            return False
        taken = {note.machine for note in self._claims[run.job] if from_s <= note.at_s <= to_s}
        going = {other.machine for other in self._runs[run.job] if _goes_on(other, from_s, to_s)}
        return not unwell & (taken | going)


def _goes_on(run: Run, from_s: float, to_s: float) -> bool:
    return run.start_s <= to_s and (run.end_s is None or run.end_s >= from_s)
