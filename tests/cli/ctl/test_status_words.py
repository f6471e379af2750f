"""The status in words: each fact is told if the caller may see it."""

from typing import Any

import pytest

from chronos.cli.ctl.status_words import describe_status

NODE = {"node": "a", "version": "1.2", "ready": True, "reason": None, "schedules": True, "works": True, "slots": 100}
NOW = {"now": "2027-01-01T09:00:00.5Z"}


@pytest.mark.parametrize(
    ("status", "line", "words"),
    [
        (NODE, "server", "http://x, Chronos 1.2"),
        (NODE, "time", "2027-01-01 09:00:00Z"),
        (NODE, "node", "a is ready; it schedules jobs and runs them"),
        ({**NODE, "works": False}, "node", "a is ready; it schedules jobs; other nodes run them"),
        ({**NODE, "schedules": False}, "node", "a is ready; it runs jobs that other nodes schedule"),
        ({"node": "a", "ready": False, "reason": "the store is away"}, "node", "a is not ready: the store is away"),
        ({"node": "a"}, "node", "a is ready"),
        ({}, "node", None),
        ({}, "jobs", None),
        ({"jobs": {}}, "jobs", "none"),
        ({"jobs": {"active": 2, "paused": 1, "done": 0}}, "jobs", "3 in all: 2 active, 1 paused"),
        ({"executions": {}}, "executions", "none is active"),
        ({"executions": {"running": 2, "ready": 1}}, "executions", "2 running, 1 ready"),
        (
            {**NODE, "executions": {"running": 2}, "executions_here": 1},
            "executions",
            "2 running; 1 of 100 slots of a are in use",
        ),
        ({"jobs_recovered": 0, "jobs_failed_to_recover": 0}, "recovery", None),
        ({"jobs_recovered": 2, "jobs_failed_to_recover": 0}, "recovery", "2 jobs recovered when the node started"),
        (
            {"jobs_recovered": 2, "jobs_failed_to_recover": 1},
            "recovery",
            "2 jobs recovered when the node started; 1 job cannot be scheduled: chronosctl jobs get NAME says why",
        ),
        ({"clock_skew_ms": 3}, "clock skew ms", 3),
    ],
)
def test_a_fact_in_words(status: dict[str, Any], line: str, words: object) -> None:
    assert describe_status("http://x", {**NOW, **status})[line] == words
