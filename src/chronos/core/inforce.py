"""The instants of a job as it stands: its schedule, behind what an update has left in force before it.

::

    before ······ until₁ | outgoing ······ until₂ | schedule ·····►
"""

from chronos.core.diff import Handover
from chronos.core.instants import Instants
from chronos.core.job import JobSpec, Outgoing, readable
from chronos.core.schedule import Schedule


def instants_of(spec: JobSpec, name: str) -> Instants | None:
    """What a planner follows for a job of this name; None: nothing by itself. Raises ``Invalid``."""
    readable(spec)
    schedule = None if spec.schedule is None else spec.schedule.parse(name)
    return schedule if spec.outgoing is None else _behind(spec.outgoing, schedule, name)


def still_needed(outgoing: Outgoing | None, next_us: int | None) -> Outgoing | None:
    """What is left of replaced schedules for a job whose cursor is ``next_us``."""
    if outgoing is None or next_us is None or next_us > outgoing.until_us:
        return None
    return Outgoing(
        schedule=outgoing.schedule,
        until_us=outgoing.until_us,
        first_us=outgoing.first_us,
        before=still_needed(outgoing.before, next_us),
    )


def _behind(outgoing: Outgoing, new: Schedule | None, name: str) -> Handover:
    schedule = outgoing.schedule.parse(name)
    old = schedule if outgoing.before is None else _behind(outgoing.before, schedule, name)
    return Handover(old=old, new=new, until_us=outgoing.until_us, first_us=outgoing.first_us)
