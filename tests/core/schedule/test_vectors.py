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
LONG_AGO = datetime(1900, 1, 1, tzinfo=UTC)
FAR_OFF = datetime(9999, 1, 1, tzinfo=UTC)

Case = dict[str, Any]


def cases(name: str) -> list[Case]:
    return [json.loads(line) for line in lzma.open(DATA / f"{name}.jsonl.xz", "rt", encoding="utf-8")]


def answers(schedule: Schedule, after: str | datetime, count: int) -> list[str]:
    start = datetime.fromisoformat(after) if isinstance(after, str) else after
    return [t.isoformat().replace("+00:00", "Z") for t in islice(schedule.between(start, FAR_OFF), count)]


def one_by_one(schedule: Schedule, after: str, count: int) -> list[str]:
    found: list[str] = []
    instant: datetime | None = datetime.fromisoformat(after)
    while instant is not None and len(found) < count:
        instant = schedule.next_after(instant)
        if instant is not None:
            found.append(instant.isoformat().replace("+00:00", "Z"))
    return found


def accepted(text: str, **options: Any) -> bool:
    try:
        parse_schedule(text, **options)
    except InvalidSchedule:
        return False
    return True


@pytest.mark.parametrize(("name", "size"), [("cron_next", 2821), ("cron_dst", 2598)])
def test_cron_instants(name: str, size: int) -> None:
    wrong: list[object] = []
    rows = cases(name)
    for case in rows:
        dst = POLICIES[case.get("policy", "vixie")]
        try:
            schedule = parse_schedule(case["expr"], timezone=case["tz"], dialect=case["dialect"], dst=dst)
        except InvalidSchedule as error:
            if "never" not in case["tags"]:
                wrong.append((case["id"], case["expr"], str(error)))
            continue
        for found in (answers(schedule, case["after"], 5), one_by_one(schedule, case["after"], 5)):
            if found != case["next"]:
                wrong.append((case["id"], case["expr"], found))
    assert not wrong
    assert len(rows) == size


def test_the_policy_matters_only_at_a_change_of_offset() -> None:
    for case in cases("cron_next"):
        if "never" in case["tags"]:
            continue
        schedule = parse_schedule(case["expr"], timezone=case["tz"], dialect=case["dialect"], dst="literal")
        assert answers(schedule, case["after"], 5) == case["next"], case


def test_what_cron_must_reject_and_accept() -> None:
    rows = cases("cron_invalid")
    verdicts = {case["id"]: accepted(case["expr"], dialect=case["dialect"]) for case in rows}
    assert [c["expr"] for c in rows if c["class"] == "must_reject" and verdicts[c["id"]]] == []
    assert [c["expr"] for c in rows if c["class"] == "must_accept" and not verdicts[c["id"]]] == []
    assert len(rows) == 1038


def test_the_extensions_we_document_and_no_others() -> None:
    extensions = [case for case in cases("cron_invalid") if case["class"] == "extension"]
    taken = {c["expr"] for c in extensions if accepted(c["expr"], dialect=c["dialect"])}
    assert taken == {
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


def test_iso8601() -> None:
    rows = cases("iso8601")
    wrong: list[object] = []
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
                wrong.append((text, found))
        elif case["valid"]:
            schedule = parse_schedule(text, timezone=case["tz"], dialect="iso8601")
            expected_next = case["next"] if case["kind"] == "next" else case["occurrences"]
            after = case["after"] if case["kind"] == "next" else LONG_AGO
            ends = case.get("total") is not None
            if answers(schedule, after, len(expected_next) + ends) != expected_next:
                wrong.append((text, answers(schedule, after, len(expected_next))))
        elif accepted(text, dialect="iso8601") and "no offset" not in case["reason"]:
            wrong.append((text, "accepted"))
    assert not wrong
    assert len(rows) == 1242


def test_every() -> None:
    rows = cases("every")
    for case in rows:
        assert accepted(case["expr"], dialect="standard") == case["valid"], case
        if "next" in case:
            schedule = parse_schedule(case["expr"], dialect="standard")
            assert one_by_one(schedule, case["after"], 3) == case["next"]
            anchored = parse_schedule(case["expr"], start=datetime.fromisoformat(case["after"]))
            assert one_by_one(anchored, case["after"], 3) == case["next"]
    assert len(rows) == 105
