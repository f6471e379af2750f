"""Examples for the documentation: one job and its runs."""

from typing import Any

from chronos.core.config import NOTHING_SET, Overlap, Retry, Settings
from chronos.core.job import JobSpec, Target, Task
from chronos.core.settings.levels import Levels
from chronos.service.settings.effective import write_effective
from chronos.store.level_cache import UpperSettings

JOB_ID = "0b7c1f3e-6a52-5d0f-9d0e-0c5e5a4f1a11"
EXECUTION_ID = "01944f0d-2c00-8a3f-9d0e-5c5e5a4f1a11"
_AT = "2027-01-04T08:00:00Z"

JOB_INPUT: dict[str, Any] = {
    "name": "nightly-etl",
    "schedule": "0 9 * * 1-5",
    "timezone": "Europe/Paris",
    "http": {"url": "https://api.example.com/etl", "method": "POST", "json": {"full": True}},
    "retry": {"max_attempts": 3},
    "tags": {"team": "data"},
}
EXECUTION: dict[str, Any] = {
    "kind": "execution",
    "id": EXECUTION_ID,
    "job_id": JOB_ID,
    "job_name": "nightly-etl",
    "job_version": 7,
    "settings": {"defaults": 3, "namespace": 0},
    "trigger": "schedule",
    "scheduled_at": _AT,
    "admitted_at": _AT,
    "started_at": "2027-01-04T08:00:00.004Z",
    "finished_at": "2027-01-04T08:00:01.204Z",
    "status": "succeeded",
    "reason": {"code": "succeeded", "message": "Every task succeeded."},
    "recovered": False,
    "node": "node-a",
    "attempts": 1,
    "lateness_ms": 4.0,
    "duration_ms": 1200.0,
}
JOB: dict[str, Any] = {
    "id": JOB_ID,
    "name": "nightly-etl",
    "namespace": "default",
    "version": 7,
    "state": "active",
    "enabled": True,
    "schedule": "0 9 * * 1-5",
    "timezone": "Europe/Paris",
    "tasks": [{"name": "main", "http": JOB_INPUT["http"]}],
    "retry": {"max_attempts": 3},
    "tags": {"team": "data"},
    "next_run_at": "2027-01-05T08:00:00Z",
    "last_execution": EXECUTION,
    "created_at": "2027-01-01T12:00:00Z",
    "updated_at": "2027-01-02T12:00:00Z",
}
SAVED: dict[str, Any] = {
    "id": JOB_ID,
    "namespace": "default",
    "name": "nightly-etl",
    "version": 1,
    "result": "created",
    "state": "active",
    "next_run_at": "2027-01-05T08:00:00Z",
}
BULK: dict[str, Any] = {
    "created": 1,
    "changed": 0,
    "unchanged": 0,
    "failed": 0,
    "dry_run": False,
    "results": [SAVED],
}
ACTED: dict[str, Any] = {
    "action": "pause",
    "dry_run": False,
    "matched": 2,
    "done": 1,
    "unchanged": 0,
    "failed": 1,
    "results": [
        {"id": JOB_ID, "namespace": "default", "name": "nightly-etl", "result": "done"},
        {
            "id": "0b7c1f3e-6a52-5d0f-9d0e-0c5e5a4f1a12",
            "namespace": "default",
            "name": "nightly-report",
            "result": "failed",
            "code": "conflict",
            "status": 409,
            "message": 'cannot pause "nightly-report", which is disabled; enable it first',
        },
    ],
}
PLAN: dict[str, Any] = {"dry_run": False, "created": [SAVED], "changed": [], "unchanged": [], "pruned": []}
_RUNS: dict[str, Any] = {
    "added": {"first": ["2027-01-05T09:00:00Z"], "count": 1},
    "canceled": {"first": ["2027-01-05T08:00:00Z"], "count": 1},
    "cancelled": {"first": ["2027-01-05T08:00:00Z"], "count": 1},
    "kept": {"first": [], "count": 0},
    "until": "2027-02-03T00:00:00Z",
    "whole": True,
}
EFFECTIVE: dict[str, Any] = write_effective(
    JobSpec(
        tasks=(Task(name="main", target=Target(kind="http"), settings=Settings(task_timeout_us=10_000_000)),),
        settings=Settings(retry=Retry(max_attempts=5)),
    ),
    UpperSettings(Settings(overlap=Overlap.QUEUE), NOTHING_SET, Settings(overlap=Overlap.QUEUE)),
    version=2,
    levels=Levels(3, 0).pack(),
)
VERSION: dict[str, Any] = {
    "version": 6,
    "saved_at": "2027-01-01T12:00:00Z",
    "author": "ana",
    "spec": {"schedule": "0 10 * * 1-5", "tasks": JOB["tasks"]},
}
VERSION_DIFF: dict[str, Any] = {
    "from": 6,
    "to": 7,
    "fields": [{"pointer": "/schedule", "old": "0 10 * * 1-5", "new": "0 9 * * 1-5"}],
    "runs": _RUNS,
}
ASKED: dict[str, Any] = {"execution_id": EXECUTION_ID, "status": "ready", "created": True}
REPLAYED: dict[str, Any] = ASKED | {"replay_of": "01944f0d-2c00-8a3f-9d0e-5c5e5a4f1a10"}
ONE_OFF: dict[str, Any] = ASKED | {
    "job_id": "0d4b6f9e-6f1c-5a52-9f0e-2a6f4c1f7f10",
    "job_name": "one-off-http-1f3870be274f6c49",
}
ENQUEUED: dict[str, Any] = {"execution_ids": [EXECUTION_ID], "count": 1}
BACKFILLED: dict[str, Any] = {"execution_ids": [EXECUTION_ID], "count": 1, "next_from": None}
WHY: dict[str, Any] = {
    "steps": [
        {"at": _AT, "verdict": "due", "sentence": "Scheduled for Mon 4 Jan 09:00 Europe/Paris (v7)."},
        {"at": _AT, "verdict": "started", "sentence": "Started on node-a."},
    ]
}
EXECUTION_SHOWN: dict[str, Any] = EXECUTION | {
    "tasks": [
        {
            "name": "main",
            "task_run_id": "5d6cd3a4-1f5e-5b1d-8d9a-54ac4b2b7a21",
            "status": "succeeded",
            "started_at": EXECUTION["started_at"],
            "finished_at": EXECUTION["finished_at"],
            "error": None,
            "attempts": [
                {
                    "number": 1,
                    "attempt_id": "9b1ad2c3-7c0e-8f21-a3d4-0c4f6f5b1e02",
                    "status": "succeeded",
                    "started_at": EXECUTION["started_at"],
                    "finished_at": EXECUTION["finished_at"],
                    "error": None,
                    "worker": "node-a",
                }
            ],
        }
    ],
    "report": None,
}
SPAN: dict[str, Any] = {
    "kind": "span",
    "id": "01944f0d-2c00-8a3f-9d0e-5c5e5a4f1a12",
    "job_id": JOB_ID,
    "job_name": "nightly-etl",
    "status": "skipped",
    "from": "2027-01-02T08:00:00Z",
    "to": "2027-01-03T08:00:00Z",
    "count": 2,
    "reason": {"code": "paused", "message": "The job was paused."},
    "recorded_at": "2027-01-04T07:00:00Z",
}
DEAD_LETTER: dict[str, Any] = {
    "id": EXECUTION_ID,
    "execution_id": EXECUTION_ID,
    "job_id": JOB_ID,
    "job_name": "nightly-etl",
    "namespace": "default",
    "failed_at": "2027-01-04T08:00:09Z",
    "reason": {"code": "task_failed", "message": "A task failed and has no attempts left."},
}
PREVIEW: dict[str, Any] = {
    "words": "Daily at 02:30, Europe/Paris",
    "understood_as": None,
    "timezone": "Europe/Paris",
    "next": ["2027-03-27T01:30:00Z", "2027-03-28T01:00:00Z", "2027-03-29T00:30:00Z"],
    "warnings": [
        {
            "kind": "moved",
            "at": "2027-03-28T01:00:00Z",
            "wall": "2027-03-28T02:30:00",
            "count": 1,
            "message": "02:30 Europe/Paris does not exist on 2027-03-28; it will run at 03:00 +02:00",
        }
    ],
}
STATUS: dict[str, Any] = {
    "jobs_persisted": 12,
    "jobs": {"active": 11, "paused": 1},
    "executions": {"running": 2},
    "now": _AT,
    "node": "node-a",
}
NODE: dict[str, Any] = {
    "number": 1,
    "name": "node-a",
    "state": "alive",
    "started_at": "2027-01-01T12:00:00Z",
    "beat_at": _AT,
    "stopped_at": None,
    "slots": 100,
    "labels": {},
    "defaults": {"number": 3, "in_force": True},
}
QUEUE: dict[str, Any] = {
    "queue": "default",
    "labels": {},
    "functions": [],
    "ready": 3,
    "queued": 0,
    "running": 2,
    "waiting": 1,
}
AUDIT: dict[str, Any] = {
    "at": "2027-01-02T12:00:00Z",
    "actor": "ana",
    "action": "changed",
    "namespace": "default",
    "subject": "nightly-etl",
    "origin": "127.0.0.1",
    "detail": "version 7",
}
TOKEN: dict[str, Any] = {
    "name": "ci",
    "role": "operator",
    "namespaces": ["billing"],
    "created_at": "2027-01-02T12:00:00Z",
    "expires_at": None,
    "created_by": "ana",
}
USER: dict[str, Any] = {"name": "ana", "role": "admin", "namespaces": None}
PROBLEM: dict[str, Any] = {
    "type": "/docs/problems#stale",
    "title": "Changed since you read it",
    "status": 412,
    "code": "stale",
    "detail": "nightly-etl changed since you read it (you have v6, it is v7, by ana)",
    "request_id": "4f1c2a7e9b0d4c55",
}
