"""Why an execution ended as it did: a code that programs match, and a sentence that a person understands."""

from dataclasses import dataclass
from enum import StrEnum


class ReasonCode(StrEnum):
    """Stable: users and dashboards match on it."""

    SUCCEEDED = "succeeded"
    TASK_FAILED = "task_failed"
    SOME_TASKS_FAILED = "some_tasks_failed"
    EXECUTION_TIMEOUT = "execution_timeout"
    OVERLAP = "overlap"
    QUEUE_FULL = "queue_full"
    PAUSED = "paused"
    DISABLED = "disabled"
    MISSED = "missed"
    OUTSIDE_RECOVERY = "outside_recovery"
    UPSTREAM_FAILED = "upstream_failed"
    CANCELED = "canceled"
    REPLACED = "replaced"
    JOB_DELETED = "job_deleted"
    WORKER_LOST = "worker_lost"
    NOT_SETTLED = "not_settled"


_SENTENCES = {
    ReasonCode.SUCCEEDED: "Every task succeeded.",
    ReasonCode.TASK_FAILED: "A task failed for good.",
    ReasonCode.SOME_TASKS_FAILED: "Some tasks failed, and the job tolerates that.",
    ReasonCode.EXECUTION_TIMEOUT: "It worked longer than its execution timeout allows.",
    ReasonCode.OVERLAP: "An earlier execution of the job was still under way.",
    ReasonCode.QUEUE_FULL: "Too many executions of the job were waiting already.",
    ReasonCode.PAUSED: "The job was paused.",
    ReasonCode.DISABLED: "The job was disabled.",
    ReasonCode.MISSED: "No node was alive to run it in time.",
    ReasonCode.OUTSIDE_RECOVERY: "It was missed, and the job's recovery does not run instants like it.",
    ReasonCode.UPSTREAM_FAILED: "A job it follows did not succeed.",
    ReasonCode.CANCELED: "Somebody canceled it.",
    ReasonCode.REPLACED: "A newer execution of the job took its place.",
    ReasonCode.JOB_DELETED: "Its job was deleted.",
    ReasonCode.WORKER_LOST: "The node that ran it died, and it may not be tried again.",
    ReasonCode.NOT_SETTLED: "It passed its execution timeout and nothing was heard of its end.",
}


@dataclass(frozen=True, slots=True)
class Reason:
    """A code and its sentence; the sentence may say more than the usual one."""

    code: ReasonCode
    message: str

    @classmethod
    def of(cls, code: ReasonCode, message: str | None = None) -> "Reason":
        return cls(code, message or _SENTENCES.get(code) or f"{code.value}: a newer release knows what this means.")
