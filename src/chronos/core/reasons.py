"""Reasons for the end of an execution: a code for programs and a sentence for people."""

from dataclasses import dataclass
from enum import StrEnum


class ReasonCode(StrEnum):
    """Stable codes, which users and dashboards match."""

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
    EXPIRED = "expired"
    NOT_CHOSEN = "not_chosen"
    CANCELED = "canceled"
    REPLACED = "replaced"
    JOB_DELETED = "job_deleted"
    WORKER_LOST = "worker_lost"
    NOT_SETTLED = "not_settled"


_SENTENCES = {
    ReasonCode.SUCCEEDED: "Every task succeeded.",
    ReasonCode.TASK_FAILED: "A task failed and has no attempts left.",
    ReasonCode.SOME_TASKS_FAILED: "Some tasks failed, and the job continued.",
    ReasonCode.EXECUTION_TIMEOUT: "It exceeded its execution timeout.",
    ReasonCode.OVERLAP: "An earlier run of the job was still in progress.",
    ReasonCode.QUEUE_FULL: "Too many runs of the job were already waiting.",
    ReasonCode.PAUSED: "The job was paused.",
    ReasonCode.DISABLED: "The job was disabled.",
    ReasonCode.MISSED: "No node was alive when it was due.",
    ReasonCode.OUTSIDE_RECOVERY: "It was missed, and the job's recovery does not run it.",
    ReasonCode.UPSTREAM_FAILED: "An upstream job did not succeed.",
    ReasonCode.EXPIRED: "It had not started when it expired.",
    ReasonCode.NOT_CHOSEN: "The replay runs other tasks only.",
    ReasonCode.CANCELED: "It was canceled.",
    ReasonCode.REPLACED: "A newer run of the job replaced it.",
    ReasonCode.JOB_DELETED: "Its job was deleted.",
    ReasonCode.WORKER_LOST: "The node that ran it died, and it may not run again.",
    ReasonCode.NOT_SETTLED: "It exceeded its execution timeout, and no outcome was recorded.",
}


@dataclass(frozen=True, slots=True)
class Reason:
    """A code and a sentence, which may be more specific than the default one."""

    code: ReasonCode
    message: str

    @classmethod
    def of(cls, code: ReasonCode, message: str | None = None) -> "Reason":
        return cls(
            code, message or _SENTENCES.get(code) or f'It ended with the reason "{code.value}" of a newer release.'
        )
