"""The fourth oracle: what was asked for beside the schedules, by people and by the jobs that go before others.

One key creates one execution, and what was acknowledged is not left out. A backfill runs each instant of its range
once, by the brute-force calendar. A replay stands for the instant of the first, and from the failed tasks on does
nothing again that was done. What failed for good, and nothing else, is among the dead letters until somebody deals with
it. Each end of a job is followed once, by those that were there to follow it, and not before it came.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping

from chronos.core.execution import Cause, Execution, Status
from chronos.core.job import UpstreamCondition, UpstreamJob
from tests.simulation.history import Backfill, Replay, Run, SettledNote
from tests.simulation.jobs import calendar
from tests.simulation.node_lifetimes import Life
from tests.simulation.scenario import BY_CALENDAR, Evidence
from tests.simulation.verdicts import Finding, Verdict, shown

_OUTBOX_TICKS = 5  # after which somebody looks for what has to follow, whatever hints were lost
_SATISFIED = {
    UpstreamCondition.SUCCESS: (Status.SUCCEEDED, Status.COMPLETED_WITH_ERRORS),
    UpstreamCondition.FAILURE: (Status.FAILED, Status.STALE),
    UpstreamCondition.COMPLETION: tuple(set(Status) - {Status.SKIPPED}),
}


class ByRequest:
    def __init__(self, evidence: Evidence, jobs: Mapping[bytes, Life]) -> None:
        self._evidence, self._history, self._jobs = evidence, evidence.history, jobs
        self._records = {record.id: record for record in evidence.records}
        self._runs: dict[bytes, list[Run]] = defaultdict(list)
        for run in self._history.runs:
            self._runs[run.execution].append(run)

    def findings(self) -> Iterator[Finding]:
        for key, created in self._history.keys.items():
            if len(created) > 1:
                yield Finding(Verdict.DUPLICATE, f"{key} was asked for once, and is there {len(created)} times")
        for record in self._records.values():
            if record.status is Status.SKIPPED and record.cause not in (*BY_CALENDAR, Cause.DEPENDENCY):
                yield Finding(Verdict.DROPPED, f"{record.id.hex()} was asked for ({record.cause.name}), and skipped")
        for backfill in self._history.backfills:
            yield from self._backfilled(backfill)
        for execution, replay in self._history.replays.items():
            yield from self._replayed(execution, replay)
        yield from self._letters()
        for life in self._jobs.values():
            for after in life.behaves.after:
                yield from self._followed(life, after)

    def _backfilled(self, backfill: Backfill) -> Iterator[Finding]:
        life = self._jobs[backfill.job]
        found = [self._records[id_] for id_ in backfill.ids if id_ in self._records]  # the rest is a lost ack
        what = f"backfill of {backfill.name} from {backfill.from_us} to {backfill.to_us}"
        if any(record.cause is not Cause.BACKFILL or record.job != backfill.job for record in found):
            yield Finding(Verdict.PHANTOM, f"{what}: something else is on record")
        said = [save for save in life.saves if save.at_s <= backfill.at_s]
        if len(said) > 1:
            return  # which schedule it went by cannot be told
        [save] = said
        wanted = calendar(save.schedule, save.now_us, backfill.from_us - 1, backfill.to_us)
        have = Counter(record.scheduled_us for record in found)
        if missing := [us for us in wanted if not have[us]]:
            yield Finding(Verdict.MISSED, f"{what}: {missing} are not there")
        known = {*wanted, save.now_us}  # an interval is anchored there, and whoever asks for that moment gets it
        if strange := [us for us in have if us not in known]:
            yield Finding(Verdict.PHANTOM, f"{what}: {strange} are no instants")
        if twice := [us for us, count in have.items() if count > 1]:
            yield Finding(Verdict.DUPLICATE, f"{what}: {twice} are there more than once")

    def _replayed(self, execution: bytes, replay: Replay) -> Iterator[Finding]:
        first, again = self._records.get(replay.first), self._records.get(execution)
        if first is None or again is None:
            return  # a lost ack
        what = f"{self._jobs[again.job].name} {execution.hex()[:12]}, a replay of {replay.first.hex()[:12]}"
        if (again.cause, again.job, again.scheduled_us) != (Cause.REPLAY, first.job, first.scheduled_us):
            yield Finding(Verdict.PHANTOM, f"{what}, stands for something else")
        if replay.from_failed:
            done = self._over(replay.first) & {run.task for run in self._runs[execution]}
            for task in sorted(done):
                yield Finding(Verdict.DUPLICATE, f"{what}, did {task} again")

    def _over(self, execution: bytes) -> set[str]:
        """Tasks that had certainly succeeded: another one began after them, and they go one after the other."""
        names = self._jobs[self._records[execution].job].behaves.task_names
        begun = [names.index(run.task) for run in self._runs[execution]]
        return set(names[: max(begun, default=0)])

    def _letters(self) -> Iterator[Finding]:
        failed = {id_ for id_, record in self._records.items() if record.status in (Status.FAILED, Status.STALE)}
        listed = set(self._evidence.letters)
        for id_ in sorted(failed - self._history.dropped - listed):
            yield Finding(Verdict.UNTOLD, f"{id_.hex()} failed for good, and is not among the dead letters")
        for id_ in sorted(listed - failed) + sorted(listed & self._history.dropped):
            yield Finding(Verdict.UNTOLD, f"{id_.hex()} is among the dead letters, and should not be")

    # --- jobs that follow others

    def _followed(self, life: Life, after: UpstreamJob) -> Iterator[Finding]:
        """Each end of the job before it has its one execution, which stands for the moment of that end."""
        upstream = {job.job for job in self._jobs.values() if job.name == after.job}
        ends: dict[int, list[Execution]] = defaultdict(list)  # two may be of the same moment: a clock was set back
        for record in self._records.values():
            if record.job in upstream and record.status.final:
                ends[record.finished_us or 0].append(record)
        have: dict[int, list[Execution]] = defaultdict(list)
        for record in self._records.values():
            if record.job == life.job and record.cause is Cause.DEPENDENCY:
                have[record.scheduled_us].append(record)
                yield from self._rightly(life, after, record, ends.get(record.scheduled_us, []))
        for finished_us, ended in ends.items():
            if len(have[finished_us]) > len(ended):
                yield Finding(Verdict.DUPLICATE, f"{life.name} follows {ended[0].id.hex()} more than once")
            told = [end for end in ended if self._has_to_follow(life, after, end)]
            if len(have[finished_us]) < len(told):
                yield Finding(Verdict.MISSED, f"{life.name} does not follow {told[0].id.hex()}, {told[0].status.name}")

    def _has_to_follow(self, life: Life, after: UpstreamJob, end: Execution) -> bool:
        note = self._history.settled.get(end.id)
        wanted = end.status in _SATISFIED[after.on] or after.on is UpstreamCondition.SUCCESS
        return wanted and note is not None and self._was_there(life, note)

    def _rightly(self, life: Life, after: UpstreamJob, record: Execution, ended: list[Execution]) -> Iterator[Finding]:
        what = f"{life.name} {record.id.hex()[:12]}"
        said = (record.detail or {}).get("upstream", [])  # what is skipped does not say whom it follows
        end = next((end for end in ended if end.id.hex() in said or not said), None)
        if end is None:
            yield Finding(Verdict.PHANTOM, f"{what} follows nothing that has ended")
            return
        satisfied = end.status in _SATISFIED[after.on]
        runs = self._runs[record.id]
        if runs and not satisfied:
            yield Finding(Verdict.PHANTOM, f"{what} ran, though what it follows is {end.status.name}")
        if record.status is Status.SKIPPED and all(end.status in _SATISFIED[after.on] for end in ended):
            yield Finding(Verdict.DROPPED, f"{what} is skipped, though what it follows is {end.status.name}")
        note = self._history.settled.get(end.id)
        for run in runs[:1]:
            if note is not None and run.start_s < note.at_s:
                yield Finding(Verdict.EARLY, f"{shown(run)}: what it follows ended at {note.at_s:.0f} s")

    def _was_there(self, life: Life, note: SettledNote) -> bool:
        """Whether somebody had the time to tell it of that end: in trouble that may take until everything healed."""
        scenario = self._evidence.scenario
        patience_s = scenario.settles_s + _OUTBOX_TICKS * scenario.options.tick_s
        return life.deleted is None and life.born_s < note.at_s < self._evidence.end_s - patience_s
