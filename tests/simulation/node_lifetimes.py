"""What became of each job by the wishes of people: when it had which schedule, was held, and was there at all.

It follows from what the store was told and did (``Change``) and from a brute-force calendar; what the store has on
record about the job's runs has no part in it.
"""

from bisect import bisect_right
from dataclasses import dataclass, field

from chronos.core.config import DAY_US, Update, UpdatePolicy
from tests.simulation.history import Change, Deed
from tests.simulation.jobs import SimJob, calendar
from tests.simulation.scenario import Evidence

_AHEAD_US = 2 * DAY_US  # more than an update leaves an old schedule in force


@dataclass(frozen=True, slots=True, kw_only=True)
class Instants:
    """Those that must be on record by the end, and those that may be: a change came about just then."""

    required: list[int]
    allowed: set[int]


@dataclass(slots=True, kw_only=True)
class Life:
    """One job from its creation to its deletion; a name that is created anew begins another one."""

    job: bytes
    behaves: SimJob
    saves: list[Change] = field(default_factory=list)
    pauses: list[tuple[float, float]] = field(default_factory=list)  # from, to; true time
    deleted: Change | None = None

    @property
    def name(self) -> str:
        return self.behaves.name

    @property
    def born_s(self) -> float:
        return self.saves[0].at_s

    def held(self, at_s: float) -> bool:
        return any(from_s < at_s < to_s for from_s, to_s in self.pauses)

    def let_go_s(self, by_s: float) -> float:
        """When it was last resumed, or saved, until then."""
        ends = [to_s for _, to_s in self.pauses if to_s <= by_s]
        return max([*ends, *(save.at_s for save in self.saves if save.at_s <= by_s)], default=0.0)

    def instants(self, evidence: Evidence) -> Instants:
        """What every schedule in force brings, one after the other.

        An update counts from the moment it names, and is applied a little later, when the store hears of it; between
        the two, and in time that a clock which was set back has shown before, either schedule may rule. How long the
        old one stays in force says its policy. A job that is deleted need not be up to date; afterwards it has no
        instants.
        """
        end_us = highest_us(evidence, evidence.end_s, evidence.end_us)
        required: list[int] = []
        allowed: set[int] = set()
        for save in self.saves:
            first = save is self.saves[0]
            from_us, to_us = (save.now_us, save.now_us) if first else _takes_over(save, required, allowed)
            coming = calendar(save.schedule, self._since_us(save), from_us, end_us + _AHEAD_US)
            allowed.update(us for us in (*required, *coming) if from_us < us <= to_us)
            required = [us for us in required if us <= from_us] + [us for us in coming if us > to_us]
        if self.deleted is not None:
            ends_us = self.deleted.highest_us
            behind_us = self.deleted.now_us - round(2e6 * evidence.scenario.settles_s)
            allowed.update(us for us in required if behind_us < us <= ends_us)
            required = [us for us in required if us <= behind_us]
        return Instants(required=[us for us in required if us <= end_us and us not in allowed], allowed=allowed)

    def _since_us(self, save: Change) -> int:
        """When an interval was anchored: with the save that said it first."""
        return next(one.now_us for one in self.saves if _text(one) == _text(save))


def lives(evidence: Evidence) -> dict[bytes, Life]:
    """By the ids of jobs."""
    behaves = {job.name: job for job in evidence.scenario.jobs}
    found: dict[bytes, Life] = {}
    paused_s: dict[bytes, float] = {}
    for change in evidence.history.changes:
        job = change.job
        match change.deed:
            case Deed.SAVE:
                life = found.setdefault(job, Life(job=job, behaves=behaves[change.name]))
                if not life.saves or _text(life.saves[-1]) != _text(change):
                    life.saves.append(change)
            case Deed.PAUSE:
                paused_s.setdefault(job, change.at_s)
            case Deed.RESUME if job in paused_s:
                found[job].pauses.append((paused_s.pop(job), change.at_s))
            case Deed.DELETE:
                found[job].deleted = change
            case _:
                pass  # of an execution
    for job, from_s in paused_s.items():
        deleted = found[job].deleted
        found[job].pauses.append((from_s, evidence.end_s if deleted is None else deleted.at_s))
    return found


def highest_us(evidence: Evidence, at_s: float, shown_us: int) -> int:
    """The latest time that the clock which counts had shown by then, when it showed this."""
    jumps = evidence.history.jumps
    return max([shown_us, *(us for _, us in jumps[: bisect_right(jumps, at_s, key=lambda jump: jump[0])])])


def _takes_over(save: Change, old: list[int], doubtful: set[int]) -> tuple[int, int]:
    """When the new schedule takes over from the old one, at the earliest and at the latest.

    Whether something was due and not yet on record, which is then the last of the old one, cannot always be told.
    """
    update = save.update or Update()
    first_us, last_us = save.now_us, max(save.now_us, save.highest_us)
    match update.policy:
        case UpdatePolicy.GRACEFUL:
            sure_us = _after(old, save.now_us, 1)
            first_us = sure_us if save.caught_up else save.now_us
            last_us = max(last_us, _after(old, last_us, 1))
        case UpdatePolicy.WINDOWED:
            ends = [] if update.duration_us is None else [save.now_us + update.duration_us]
            late = list(ends)
            if update.count is not None:
                ends.append(_after(old, save.now_us, update.count))
                late.append(_after(old, last_us, update.count))
            first_us = max(min(ends), save.now_us)
            last_us = max(min(late), last_us)
        case _:
            pass
    unsure = [us for us in doubtful if save.now_us < us <= last_us] if update.policy is not None else []
    return (first_us, last_us) if not unsure else (save.now_us, last_us)


def _after(instants: list[int], after_us: int, count: int) -> int:
    """The last of the next so many; or of as many as there are."""
    coming = [us for us in instants if us > after_us][:count]
    return coming[-1] if coming else after_us


def _text(save: Change) -> str:
    return "" if save.schedule is None else save.schedule.text
