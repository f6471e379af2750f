"""Every case of the conformance vectors, which were generated independently of this implementation."""

import json
import lzma
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from chronos import InvalidSchedule, Schedule, parse_schedule
from chronos.core.calendar import SECOND_US
from chronos.core.schedule.iso8601 import parse_period

DATA = Path(__file__).parents[2] / "data"
POLICIES = {"vixie": "robust", "literal": "literal"}
EARLIEST = datetime(1900, 1, 1, tzinfo=UTC)
LATEST = datetime(9999, 1, 1, tzinfo=UTC)

Case = dict[str, Any]


def read_cases(name: str) -> list[Case]:
    return [json.loads(line) for line in lzma.open(DATA / f"{name}.jsonl.xz", "rt", encoding="utf-8")]


def list_instants(schedule: Schedule, after: str | datetime, count: int) -> list[str]:
    start = datetime.fromisoformat(after) if isinstance(after, str) else after
    return [t.isoformat().replace("+00:00", "Z") for t in islice(schedule.between(start, LATEST), count)]


def walk_instants(schedule: Schedule, after: str, count: int) -> list[str]:
    found: list[str] = []
    instant: datetime | None = datetime.fromisoformat(after)
    while instant is not None and len(found) < count:
        instant = schedule.next_after(instant)
        if instant is not None:
            found.append(instant.isoformat().replace("+00:00", "Z"))
    return found


def is_accepted(text: str, **options: Any) -> bool:
    try:
        parse_schedule(text, **options)
    except InvalidSchedule:
        return False
    return True


@pytest.mark.parametrize(("name", "size"), [("cron_next", 2821), ("cron_dst", 2598)])
def test_cron_instants_match_the_vectors(name: str, size: int) -> None:
    mismatches: list[object] = []
    rows = read_cases(name)
    for case in rows:
        dst = POLICIES[case.get("policy", "vixie")]
        try:
            schedule = parse_schedule(case["expr"], timezone=case["tz"], dialect=case["dialect"], dst=dst)
        except InvalidSchedule as error:
            if "never" not in case["tags"]:
                mismatches.append((case["id"], case["expr"], str(error)))
            continue
        for found in (list_instants(schedule, case["after"], 5), walk_instants(schedule, case["after"], 5)):
            if found != case["next"]:
                mismatches.append((case["id"], case["expr"], found))
    assert not mismatches
    assert len(rows) == size


def test_the_policy_matters_only_at_a_change_of_offset() -> None:
    for case in read_cases("cron_next"):
        if "never" in case["tags"]:
            continue
        schedule = parse_schedule(case["expr"], timezone=case["tz"], dialect=case["dialect"], dst="literal")
        assert list_instants(schedule, case["after"], 5) == case["next"], case


def test_invalid_cron_is_rejected_and_valid_cron_accepted() -> None:
    rows = read_cases("cron_invalid")
    verdicts = {case["id"]: is_accepted(case["expr"], dialect=case["dialect"]) for case in rows}
    assert [c["expr"] for c in rows if c["class"] == "must_reject" and verdicts[c["id"]]] == []
    assert [c["expr"] for c in rows if c["class"] == "must_accept" and not verdicts[c["id"]]] == []
    assert len(rows) == 1038


def test_only_documented_extensions_are_accepted() -> None:
    extensions = [case for case in read_cases("cron_invalid") if case["class"] == "extension"]
    accepted = {c["expr"] for c in extensions if is_accepted(c["expr"], dialect=c["dialect"])}
    assert accepted == {
        *(
            "* * ? * *",
            "* * L-3 * *",
            "* * 1W * *",
            "* * 7,14,L * *",
            "* * * H *",
            "* * * * 5L",
            "* * * * 1#1",
        ),
        *("* H * * * *", "* * H * * *", "* * * H * *", "* * * L * *", "* * * 15W * *", "* * * L-3 * *"),
        *(
            "* * * 1W * *",
            "* * * 7,14,L * *",
            "* * * * * H",
            "* * * * * 1#1",
            "* * * * * 5#5",
            "* * * * * 1L",
        ),
    }


def test_iso8601_intervals_match_the_vectors() -> None:
    rows = read_cases("iso8601")
    mismatches: list[object] = []
    for case in rows:
        text = case["text"]
        if case["kind"] == "duration":
            try:
                period = parse_period(text)
                found = (period.months, period.days, period.us)
            except InvalidSchedule:
                found = None
            expected = None
            if case["valid"]:
                expected = (case["months"], case["days"], round(case["seconds"] * SECOND_US))
            if found != expected:
                mismatches.append((text, found))
        elif case["valid"]:
            schedule = parse_schedule(text, timezone=case["tz"], dialect="iso8601")
            expected_next = case["next"] if case["kind"] == "next" else case["occurrences"]
            after = case["after"] if case["kind"] == "next" else EARLIEST
            ends = case.get("total") is not None
            if list_instants(schedule, after, len(expected_next) + ends) != expected_next:
                mismatches.append((text, list_instants(schedule, after, len(expected_next))))
        elif is_accepted(text, dialect="iso8601") and "no offset" not in case["reason"]:
            mismatches.append((text, "accepted"))
    assert not mismatches
    assert len(rows) == 1242


def test_fixed_intervals_match_the_vectors() -> None:
    rows = read_cases("every")
    for case in rows:
        assert is_accepted(case["expr"], dialect="standard") == case["valid"], case
        if "next" in case:
            schedule = parse_schedule(case["expr"], dialect="standard")
            assert walk_instants(schedule, case["after"], 3) == case["next"]
            anchored = parse_schedule(case["expr"], start=datetime.fromisoformat(case["after"]))
            assert walk_instants(anchored, case["after"], 3) == case["next"]
    assert len(rows) == 105
