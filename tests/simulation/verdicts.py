"""What may be found, by name."""

from dataclasses import dataclass
from enum import Enum

from tests.simulation.history import Run


class Verdict(Enum):
    MISSED = "an instant without a run, a record or a span"
    DUPLICATE = "work done twice without need"
    OVERLAP = "two at once where only one may be"
    DISORDER = "a later instant before an earlier one, in a queue"
    EARLY = "before the clock had shown its instant"
    KILLED = "ended by force, on a machine that was well"
    LATE = "long after it could have begun, though all was well"
    LOST_ACK = "acknowledged, and not on record"
    RESURRECTED = "started after it had ended"
    ZOMBIE = "an outcome accepted from one who did not hold it any more"
    PHANTOM = "a run without a record, or a record without a run or an instant"
    DROPPED = "asked for, and left out"
    UNTOLD = "failed for good, and not among the dead letters; or there without a reason"
    IGNORED = "started, or went on, although it was paused, canceled or deleted"
    OUTDATED = "began under a version that had been replaced"
    STUCK = "still open, long after everything healed"
    UNSOUND = "the store contradicts itself"
    BROKEN = "an engine ended by an error"
    QUIET = "too little went wrong for the test to mean anything"


@dataclass(frozen=True, slots=True)
class Finding:
    verdict: Verdict
    what: str

    def __str__(self) -> str:
        return f"{self.verdict.name}: {self.what}"


def shown(run: Run) -> str:
    """One try in a sentence."""
    return (
        f"{run.name} {run.execution.hex()[:12]} {run.task} try {run.number} token {run.token} on {run.machine} "
        f"at {run.start_s:.0f}–{-1 if run.end_s is None else run.end_s:.0f} s"
    )
