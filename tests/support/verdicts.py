"""The faults that the checkers of the chaos tests and of the simulation can find, by name."""

from dataclasses import dataclass
from enum import Enum


class Verdict(Enum):
    """One kind of broken promise."""

    MISSED = "an instant without a run, a record or a span"
    DUPLICATE = "work done twice without a lost attempt that explains it"
    OVERLAP = "two runs at once where only one is allowed"
    DISORDER = "a later instant before an earlier one, in a queue"
    EARLY = "started before the clock had shown its instant"
    LATE = "started long after it could have, although nothing was disturbed"
    LOST_ACK = "acknowledged, and not on record"
    RESURRECTED = "started after its execution had ended"
    ZOMBIE = "ran beside its successor, because its node was frozen and did not know of it"
    UNFENCED = "an outcome accepted from a node that no longer held the execution"
    PHANTOM = "a run without a record, or a record without a run or an instant"
    KILLED = "killed on a machine that was not disturbed"
    FAILED = "ended badly, although its work cannot fail"
    ORPHAN = "a process that survived its node"
    DROPPED = "requested, and not run"
    WRONG_DEAD_LETTER = "failed for good and not among the dead letters, or a dead letter without a reason"
    IGNORED = "started or continued although it was paused, canceled or deleted"
    OUTDATED = "started with a version that had been replaced"
    STUCK = "still open long after everything healed"
    INCONSISTENT = "the store contradicts itself"
    ENGINE_FAILED = "an engine ended by an error"
    TOO_FEW_FAULTS = "too little went wrong for the test to mean anything"


@dataclass(frozen=True, slots=True)
class Finding:
    """A verdict and what it is about."""

    verdict: Verdict
    subject: str

    def __str__(self) -> str:
        return f"{self.verdict.name}: {self.subject}"
