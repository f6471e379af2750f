"""Examples of overviews for the documentation."""

from typing import Any

_AT = "2027-01-04T08:00:00Z"

JOB_COUNTS: dict[str, Any] = {
    "total": 1284,
    "by_status": {
        "disabled": 4,
        "done": 0,
        "paused": 12,
        "late": 1,
        "retrying": 0,
        "running": 3,
        "failing": 2,
    },
    "cap": 10_000,
}
FACETS: dict[str, Any] = {
    "tags": [{"value": "team=data", "jobs": 214}],
    "owners": [{"value": "etl", "jobs": 40}],
    "zones": [{"value": "Europe/Paris", "jobs": 1200}],
    "targets": [{"value": "http", "jobs": 1280}],
    "queues": ["default", "etl"],
    "complete": True,
}
RUN_STATS: dict[str, Any] = {
    "from": "2027-01-04T07:45:00Z",
    "to": _AT,
    "bucket_ms": 900_000,
    "complete": True,
    "totals": {"succeeded": 41, "failed": 1},
    "buckets": [{"start": "2027-01-04T07:45:00Z", "counts": {"succeeded": 41, "failed": 1}, "capped": False}],
}
_MINUTES: dict[str, Any] = {
    "start": _AT,
    "minutes": 5,
    "started": 210,
    "delay_p50_ms": 2.4,
    "delay_p99_ms": 9.7,
    "commits": 340,
    "commit_p50_ms": 1.1,
    "commit_p99_ms": 4.0,
}
DELAYS: dict[str, Any] = {"recent": _MINUTES, "series": [_MINUTES]}
DAYS: dict[str, Any] = {
    "zone": "Europe/Paris",
    "today": "2027-01-04",
    "complete": True,
    "success_rate": 0.991,
    "days": [
        {"day": "2027-01-04", "planned": 0, "clock_changes": False, "succeeded": 1, "worked_ms": 1200},
        {"day": "2027-01-05", "planned": 1, "clock_changes": False},
    ],
}
LOG_WINDOW: dict[str, Any] = {
    "task": "main",
    "attempt": 1,
    "lines": [{"number": 1, "at_byte": 0, "text": "hello", "cut_bytes": 0, "matches": False}],
    "total_lines": 1,
    "total_bytes": 6,
    "left_out_bytes": 0,
    "previous_byte": None,
    "next_byte": None,
    "match_count": None,
    "match_lines": [],
    "parts": [{"task": "main", "attempt": 1, "lines": 1, "bytes": 6}],
}
LETTER_GROUPS: dict[str, Any] = {
    "items": [
        {
            "key": "load-eu: HTTP <n>, <text>",
            "error": "load-eu: HTTP <n>, <text>",
            "jobs": ["nightly-etl"],
            "count": 6,
            "latest_at": _AT,
            "latest_id": "01944f0d-2c00-8a3f-9d0e-5c5e5a4f1a11",
            "trend": [0, 0, 0, 1, 2, 1, 2],
        }
    ],
    "letters": 6,
    "complete": True,
    "latest_at": _AT,
}
