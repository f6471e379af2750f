"""The lifetime of each job under the operator's actions: when it existed, with which schedule, and when it was paused.

It follows from the changes that the store applied (``Change``) and from a brute-force calendar. The records of the
store are not used.
"""

from bisect import bisect_right
from dataclasses import dataclass, field

from chronos.core.config import DAY_US, Update, UpdatePolicy
from tests.simulation.history import Action, Change
from tests.simulation.jobs import SimJob, calendar
from tests.simulation.scenario import Evidence

_AHEAD_US = 2 * DAY_US  # longer than an update keeps an old schedule


@dataclass(frozen=True, slots=True, kw_only=True)
class Instants:
    """The instants that must be on record by the end, and those that may be, because a change happened just then."""

    required: list[int]
    allowed: set[int]


@dataclass(slots=True, kw_only=True)
class JobLifetime:
    """One job from its creation to its deletion. A name that is created again has another lifetime."""

    job: bytes
    sim_job: SimJob
    saves: list[Change] = field(default_factory=list)
    pauses: list[tuple[float, float]] = field(default_factory=list)  # from, to; true time
    deleted: Change | None = None

    @property
    def name(self) -> str:
        return self.sim_job.name

    @property
    def created_s(self) -> float:
        return self.saves[0].at_s

    def is_paused_at(self, at_s: float) -> bool:
        return any(from_s < at_s < to_s for from_s, to_s in self.pauses)

    def find_release_s(self, by_s: float) -> float:
        """When the job was last resumed or saved before a time."""
        ends = [to_s for _, to_s in self.pauses if to_s <= by_s]
        return max([*ends, *(save.at_s for save in self.saves if save.at_s <= by_s)], default=0.0)

    def instants(self, evidence: Evidence) -> Instants:
        """The instants of every schedule, one after the other.

        An update counts from its time, and is applied a little later, when it reaches the store. In between, and in
        time that a clock showed before it was set back, either schedule may apply. The update policy says how long the
        old schedule stays. A deleted job need not be up to date, and has no instants afterwards.
        """
        end_us = latest_shown_us(evidence, evidence.end_s, evidence.end_us)
        required: list[int] = []
        allowed: set[int] = set()
        for save in self.saves:
            first = save is self.saves[0]
            from_us, to_us = (save.now_us, save.now_us) if first else _find_takeover(save, required, allowed)
            coming = calendar(save.schedule, self._since_us(save), from_us, end_us + _AHEAD_US)
            allowed.update(us for us in (*required, *coming) if from_us < us <= to_us)
            required = [us for us in required if us <= from_us] + [us for us in coming if us > to_us]
        if self.deleted is not None:
            ends_us = self.deleted.latest_shown_us
            behind_us = self.deleted.now_us - round(2e6 * evidence.scenario.settles_s)
            allowed.update(us for us in required if behind_us < us <= ends_us)
            required = [us for us in required if us <= behind_us]
        return Instants(required=[us for us in required if us <= end_us and us not in allowed], allowed=allowed)

    def _since_us(self, save: Change) -> int:
        """The anchor of an interval: the first save with this text."""
        return next(each.now_us for each in self.saves if _get_text(each) == _get_text(save))


def build_lifetimes(evidence: Evidence) -> dict[bytes, JobLifetime]:
    """The lifetimes of jobs, by id."""
    sim_job = {job.name: job for job in evidence.scenario.jobs}
    lifetimes: dict[bytes, JobLifetime] = {}
    paused_s: dict[bytes, float] = {}
    for change in evidence.history.changes:
        job = change.job
        match change.action:
            case Action.SAVE:
                lifetime = lifetimes.setdefault(job, JobLifetime(job=job, sim_job=sim_job[change.name]))
                if not lifetime.saves or _get_text(lifetime.saves[-1]) != _get_text(change):
                    lifetime.saves.append(change)
            case Action.PAUSE:
                paused_s.setdefault(job, change.at_s)
            case Action.RESUME if job in paused_s:
                lifetimes[job].pauses.append((paused_s.pop(job), change.at_s))
            case Action.DELETE:
                lifetimes[job].deleted = change
            case _:
                pass  # an action on an execution
    for job, from_s in paused_s.items():
        deleted = lifetimes[job].deleted
        lifetimes[job].pauses.append((from_s, evidence.end_s if deleted is None else deleted.at_s))
    return lifetimes


def latest_shown_us(evidence: Evidence, at_s: float, clock_us: int) -> int:
    """The latest time that the reference clock had shown by ``at_s``, when it showed ``clock_us``."""
    jumps = evidence.history.jumps
    return max([clock_us, *(us for _, us in jumps[: bisect_right(jumps, at_s, key=lambda jump: jump[0])])])


def _find_takeover(save: Change, old: list[int], doubtful: set[int]) -> tuple[int, int]:
    """When the new schedule takes over from the old one, at the earliest and at the latest.

    It is not always known whether an instant was due and not yet on record; that is then the last of the old schedule.
    """
    update = save.update or Update()
    first_us, last_us = save.now_us, max(save.now_us, save.latest_shown_us)
    match update.policy:
        case UpdatePolicy.GRACEFUL:
            certain_us = _find_last_of_next(old, save.now_us, 1)
            first_us = certain_us if save.caught_up else save.now_us
            last_us = max(last_us, _find_last_of_next(old, last_us, 1))
        case UpdatePolicy.WINDOWED:
            ends = [] if update.duration_us is None else [save.now_us + update.duration_us]
            late = list(ends)
            if update.count is not None:
                ends.append(_find_last_of_next(old, save.now_us, update.count))
                late.append(_find_last_of_next(old, last_us, update.count))
            first_us = max(min(ends), save.now_us)
            last_us = max(min(late), last_us)
        case _:
            pass
    uncertain = [us for us in doubtful if save.now_us < us <= last_us] if update.policy is not None else []
    return (first_us, last_us) if not uncertain else (save.now_us, last_us)


def _find_last_of_next(instants: list[int], after_us: int, count: int) -> int:
    """The last of the next ``count`` instants, or of as many as there are."""
    coming = [us for us in instants if us > after_us][:count]
    return coming[-1] if coming else after_us


def _get_text(save: Change) -> str:
    return "" if save.schedule is None else save.schedule.text
