"""Why an execution ended as it did: a code that programs match, and a sentence that a person understands."""

from dataclasses import dataclass
from enum import StrEnum


class Code(StrEnum):
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
    Code.SUCCEEDED: "Every task succeeded.",
    Code.TASK_FAILED: "A task failed for good.",
    Code.SOME_TASKS_FAILED: "Some tasks failed, and the job tolerates that.",
    Code.EXECUTION_TIMEOUT: "It worked longer than its execution timeout allows.",
    Code.OVERLAP: "An earlier execution of the job was still under way.",
    Code.QUEUE_FULL: "Too many executions of the job were waiting already.",
    Code.PAUSED: "The job was paused.",
    Code.DISABLED: "The job was disabled.",
    Code.MISSED: "No node was alive to run it in time.",
    Code.OUTSIDE_RECOVERY: "It was missed, and the job's recovery does not run instants like it.",
    Code.UPSTREAM_FAILED: "A job it follows did not succeed.",
    Code.CANCELED: "Somebody canceled it.",
    Code.REPLACED: "A newer execution of the job took its place.",
    Code.JOB_DELETED: "Its job was deleted.",
    Code.WORKER_LOST: "The node that ran it died, and it may not be tried again.",
    Code.NOT_SETTLED: "It passed its execution timeout and nothing was heard of its end.",
}


@dataclass(frozen=True, slots=True)
class Reason:
    """A code and its sentence; the sentence may say more than the usual one."""

    code: Code
    message: str

    @classmethod
    def of(cls, code: Code, message: str | None = None) -> "Reason":
        return cls(code, message or _SENTENCES.get(code) or f"{code.value}: a newer release knows what this means.")
