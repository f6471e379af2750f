"""``chronosctl schedule next`` and ``schedule explain``: their output and their errors."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from chronos import parse_schedule
from chronos.cli.ctl.commands import schedule as module
from chronos.cli.main import chronosctl
from chronos.core.schedule import parser

NEW_YEAR = "2027-01-01T00:00:00Z"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(chronosctl, ["schedule", *arguments])


def json_output(*arguments: str) -> Any:
    result = run(*arguments, "-o", "json")
    assert (result.exit_code, result.stderr) == (0, "")
    return json.loads(result.stdout)


def next_runs(expression: str, *arguments: str, after: str = NEW_YEAR) -> list[str]:
    found: list[str] = json_output("next", expression, "--after", after, *arguments)
    return found


def test_choices_equal_those_of_the_core() -> None:
    assert module.DIALECTS == parser.DIALECTS
    assert module.DST_POLICIES == parser.DST_POLICIES


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["0 9 * * 1-5", "--count", "2"], ["2027-01-01T09:00:00Z", "2027-01-04T09:00:00Z"]),
        (
            ["0 9 * * *", "--timezone", "Europe/Paris", "--count", "2"],
            ["2027-01-01T08:00:00Z", "2027-01-02T08:00:00Z"],
        ),
        (["30 0 9 * * *", "--dialect", "seconds", "--count", "1"], ["2027-01-01T09:00:30Z"]),
        (["CRON_TZ=Asia/Tokyo 0 9 * * *", "--count", "1"], ["2027-01-02T00:00:00Z"]),
        (["0 9 * * *", "--exclude", "2027-01-01", "--count", "1"], ["2027-01-02T09:00:00Z"]),
        (
            ["0 9 * * *", "--exclude", "2027-01-01/2027-01-05", "--exclude", "* * * * 3", "--count", "1"],
            ["2027-01-07T09:00:00Z"],
        ),
        (
            ["0 9 * * *", "--start", "2027-02-01", "--end", "2027-02-02T09:00:00Z"],
            ["2027-02-01T09:00:00Z", "2027-02-02T09:00:00Z"],
        ),
        (["@every 1h30m", "--count", "2"], ["2027-01-01T01:30:00Z", "2027-01-01T03:00:00Z"]),
        (["@every 1h30m", "--start", "2027-01-01T00:10:00Z", "--count", "1"], ["2027-01-01T00:10:00Z"]),
        (["@every 250ms", "--count", "2"], ["2027-01-01T00:00:00.250000Z", "2027-01-01T00:00:00.500000Z"]),
        (["P3W", "--count", "2"], ["2027-01-22T00:00:00Z", "2027-02-12T00:00:00Z"]),
        (
            ["R3/2027-01-31T09:00:00/P1M"],
            ["2027-01-31T09:00:00Z", "2027-02-28T09:00:00Z", "2027-03-31T09:00:00Z"],
        ),
        (["2027-06-01T12:00:00+02:00"], ["2027-06-01T10:00:00Z"]),
        (["2020-06-01T12:00:00Z"], []),
        (["0 0 30 2 *", "--dialect", "posix"], []),
    ],
)
def test_next(arguments: list[str], expected: list[str]) -> None:
    assert next_runs(*arguments) == expected


def test_next_equals_the_library() -> None:
    schedule = parse_schedule("*/7 3-5 L * *", timezone="America/New_York", dst="literal")
    options = ["--timezone", "America/New_York", "--dst", "literal", "--count", "100"]
    end = datetime(2030, 1, 1, tzinfo=UTC)
    expected = [
        run.isoformat().replace("+00:00", "Z")
        for run, _ in zip(schedule.between(datetime(2027, 1, 1, tzinfo=UTC), end), range(100), strict=False)
    ]
    assert next_runs("*/7 3-5 L * *", *options) == expected


def test_an_interval_without_a_start_is_counted_from_after_and_does_not_drift() -> None:
    monthly = next_runs("P1M", "--count", "4", after="2027-01-31T09:00:00Z")
    assert monthly == [f"2027-{date}T09:00:00Z" for date in ("02-28", "03-31", "04-30", "05-31")]


def test_after_without_an_offset_is_a_time_in_the_zone() -> None:
    options = ["--timezone", "Europe/Paris", "--count", "1"]
    assert next_runs("0 9 * * *", *options, after="2027-01-01T09:00:00") == ["2027-01-02T08:00:00Z"]
    assert next_runs("0 9 * * *", *options, after="2027-01-01T08:59:59") == ["2027-01-01T08:00:00Z"]
    assert next_runs("0 9 * * *", *options, after="2027-01-01") == ["2027-01-01T08:00:00Z"]


def test_the_default_of_after_is_now() -> None:
    before = datetime.now(UTC)
    (found,) = json_output("next", "* * * * * *", "--count", "1")
    assert 0 < (datetime.fromisoformat(found) - before).total_seconds() < 60


def test_the_default_is_ten_runs() -> None:
    assert len(next_runs("* * * * *")) == 10
    assert len(next_runs("* * * * * *", "--count", "10000")) == 10_000


def test_the_key_decides_the_value_of_h() -> None:
    by_key = {key: next_runs("H H * * *", "--key", key, "--count", "1")[0] for key in ("a", "b", "ключ")}
    assert len(set(by_key.values())) == 3
    expected = parse_schedule("H H * * *", key="ключ").next_after(datetime(2027, 1, 1, tzinfo=UTC))
    assert expected is not None
    assert datetime.fromisoformat(by_key["ключ"]) == expected


def test_next_as_lines_and_as_a_table() -> None:
    asked = ["next", "0 9 * * *", "--after", NEW_YEAR, "--count", "2"]
    assert run(*asked, "-o", "jsonl").stdout == '"2027-01-01T09:00:00Z"\n"2027-01-02T09:00:00Z"\n'
    assert run(*asked).stdout == "UTC\n2027-01-01T09:00:00Z\n2027-01-02T09:00:00Z\n"
    assert run(*asked, "--timezone", "Asia/Kolkata").stdout == (
        "Asia/Kolkata                 UTC\n"
        "Fri 2027-01-01 09:00 +05:30  2027-01-01T03:30:00Z\n"
        "Sat 2027-01-02 09:00 +05:30  2027-01-02T03:30:00Z\n"
    )


def test_a_table_shows_seconds_only_when_there_are_any() -> None:
    asked = ["next", "@every 1m30s", "--after", NEW_YEAR, "--count", "2", "--timezone", "Asia/Tokyo"]
    assert "Fri 2027-01-01 09:01:30 +09:00  2027-01-01T00:01:30Z\n" in run(*asked).stdout
    asked[1] = "@every 500us"
    assert "Fri 2027-01-01 09:00:00.000500 +09:00  2027-01-01T00:00:00.000500Z\n" in run(*asked).stdout


def test_no_run_prints_an_empty_list_and_a_message() -> None:
    result = run("next", "2020-01-01T00:00:00Z", "--after", NEW_YEAR)
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "no run after 2027-01-01T00:00:00Z\n"
    explained = run("explain", "2020-01-01T00:00:00Z", "--after", NEW_YEAR)
    assert "no run after 2027-01-01T00:00:00Z\n" in explained.stdout


@pytest.mark.parametrize("after", ["0001-01-01T00:00:00Z", "9999-12-30T00:00:00Z", "9999-12-31T23:59:59Z"])
@pytest.mark.parametrize("zone", ["America/New_York", "Pacific/Kiritimati"])
def test_the_edges_of_the_calendar(after: str, zone: str) -> None:
    for expression in ("0 9 * * *", "@every 1h"):
        for command in ("next", "explain"):
            result = run(command, expression, "--timezone", zone, "--after", after)
            assert (result.exit_code, result.exception) == (0, None)


def test_explain_as_json() -> None:
    asked = ["explain", "30 2 * * *", "--timezone", "Europe/Paris", "--after", "2027-03-26T00:00:00Z"]
    explained = json_output(*asked, "--count", "3")
    assert explained["oddities"] == explained["warnings"]
    assert {key: value for key, value in explained.items() if key != "oddities"} == {
        "expression": "30 2 * * *",
        "words": parse_schedule("30 2 * * *", timezone="Europe/Paris").describe(),
        "understood_as": None,
        "timezone": "Europe/Paris",
        "next": [
            {"utc": "2027-03-26T01:30:00Z", "local": "2027-03-26T02:30:00+01:00"},
            {"utc": "2027-03-27T01:30:00Z", "local": "2027-03-27T02:30:00+01:00"},
            {"utc": "2027-03-28T01:00:00Z", "local": "2027-03-28T03:00:00+02:00"},
        ],
        "warnings": [
            {
                "kind": "moved",
                "at": "2027-03-28T01:00:00Z",
                "wall": "2027-03-28T02:30:00",
                "count": 1,
                "message": "02:30 Europe/Paris does not exist on 2027-03-28; it will run at 03:00 +02:00",
            },
            {
                "kind": "once",
                "at": "2027-10-31T00:30:00Z",
                "wall": "2027-10-31T02:30:00",
                "count": 1,
                "message": "02:30 Europe/Paris happens twice on 2027-10-31; "
                "it will run once, the first time, at 02:30 +02:00",
            },
        ],
    }
    assert json.loads(run(*asked, "--count", "3", "-o", "jsonl").stdout) == explained


def test_explain_as_text() -> None:
    asked = ["--timezone", "Europe/Paris", "--after", "2027-03-26T00:00:00Z", "--count", "3"]
    words, *lines = run("explain", "30 2 * * *", *asked).stdout.splitlines()
    assert words == parse_schedule("30 2 * * *", timezone="Europe/Paris").describe()
    assert lines == [
        "",
        "Europe/Paris                 UTC",
        "Fri 2027-03-26 02:30 +01:00  2027-03-26T01:30:00Z",
        "Sat 2027-03-27 02:30 +01:00  2027-03-27T01:30:00Z",
        "Sun 2027-03-28 03:00 +02:00  2027-03-28T01:00:00Z",
        "",
        "! 02:30 Europe/Paris does not exist on 2027-03-28; it will run at 03:00 +02:00",
        "! 02:30 Europe/Paris happens twice on 2027-10-31; it will run once, the first time, at 02:30 +02:00",
    ]
    calm = run("explain", "0 9 * * *", *asked).stdout
    assert calm.endswith("\n\nNo clock change affects it in the 12 months from 2027-03-26.\n")


def test_explain_describes_the_schedule_as_written() -> None:
    asked = ["explain", "@every 2h", "--after", NEW_YEAR]
    assert json_output(*asked)["words"] == parse_schedule("@every 2h").describe()


def test_explain_looks_twelve_months_ahead() -> None:
    def oddities(after: str) -> list[str]:
        found = json_output("explain", "30 2 * * *", "--timezone", "Europe/Paris", "--after", after)["warnings"]
        return [oddity["wall"][:10] for oddity in found]

    assert oddities("2027-03-28T01:00:00Z") == ["2027-10-31", "2028-03-26"]
    assert oddities("2027-03-25T01:00:00Z") == ["2027-03-28", "2027-10-31"]
    assert oddities("2028-02-29T00:00:00Z") == ["2028-03-26", "2028-10-29"]


@pytest.mark.parametrize(
    ("expression", "understood"),
    [
        ("0 0 * * *", None),
        ("CRON_TZ=Asia/Tokyo 0 0 * * *", None),
        ("@every 1h", None),
        ("2027-03-01T00:00:00Z", None),
        ("R/2027-03-01T00:00:00Z/P1D", None),
        ("@daily", "0 0 * * *"),
        ("0 9 * jan,feb mon-fri", "0 9 * 1,2 1-5"),
        ("every weekday at 9am in New York", "0 9 * * 1-5"),
        ("in 2 hours", None),
        ("tomorrow at noon", None),
    ],
)
def test_explain_shows_how_words_are_understood(expression: str, understood: str | None) -> None:
    _, second, *_ = run("explain", expression, "--after", NEW_YEAR).stdout.splitlines()
    assert second == (f"understood as {understood}" if understood else "")
    assert json_output("explain", expression, "--after", NEW_YEAR)["understood_as"] == understood
    assert run("explain", expression, "-o", "name").stdout == f"{understood or expression}\n"


def test_formats() -> None:
    asked = ["0 9 * * *", "--timezone", "Europe/Paris", "--after", "2027-03-27T00:00:00Z", "--count", "2"]
    instants = ["2027-03-27T08:00:00Z", "2027-03-28T07:00:00Z"]
    assert run("next", *asked, "-o", "name").stdout.split() == instants
    assert yaml.safe_load(run("next", *asked, "-o", "yaml").stdout) == instants
    header, first, second = run("next", *asked, "-o", "wide").stdout.splitlines()
    assert header.split() == ["Europe/Paris", "UTC", "APART"]
    assert (first.split()[-1], second.split()[-1]) == ("–", "23h")
    assert yaml.safe_load(run("explain", *asked, "-o", "yaml").stdout) == json_output("explain", *asked)
    assert header in run("explain", *asked, "-o", "wide").stdout
    never = run("next", "2020-06-01T12:00:00Z", "--after", NEW_YEAR, "-o", "name")
    assert (never.exit_code, never.stdout, never.stderr) == (0, "", "no run after 2027-01-01T00:00:00Z\n")


BAD = [
    (["0 25 * * *"], 1, '✗ cron field "hour" is 25, allowed 0–23\n    0 25 * * *\n      ^^\n'),
    (["0 9 * * *", "--timezone", "Europe/Pari"], 1, "did you mean 'Europe/Paris'?"),
    (["0 9 * * *", "--timezone", "../../passwd"], 1, "unknown time zone '../../passwd'"),
    (["0 9 * * *", "--timezone", "\0"], 1, "unknown time zone"),
    (["CRON_TZ=Nowhere 0 9 * * *"], 1, "unknown time zone 'Nowhere'"),
    (["0 9 * * *", "--after", "tomorrow"], 1, '✗ after is "tomorrow", which is not an instant'),
    (["0 9 * * *", "--after", "2027-02-29"], 1, '✗ after is "2027-02-29"'),
    (["0 9 * * *", "--after", "0001-01-01T00:00:00+14:00"], 1, "✗ after is"),
    (["0 9 * * *", "--after", "1e9"], 1, "✗ after is"),
    (["0 9 * * *", "--start", "later"], 1, '✗ start is "later"'),
    (["0 9 * * *", "--end", "2027-13-01"], 1, '✗ end is "2027-13-01"'),
    (["0 9 * * *", "--start", "2027-01-02", "--end", "2027-01-01"], 1, "ends before it starts"),
    (["0 9 * * *", "--exclude", "christmas"], 1, "✗ "),
    (["0 9 * * *", "--exclude", "2027-02-30"], 1, "✗ "),
    (["0 9 * * *", "--exclude", "* * * * *"], 1, "its exclusions leave no run"),
    (["0 9 * * *", "--dst", "maybe"], 2, "✗ Invalid value for '--dst'"),
    (["0 9 * * *", "--dialect", "cronexpr"], 2, "✗ Invalid value for '--dialect'"),
    (["0 9 * * *", "--count", "0"], 2, "✗ Invalid value for '--count'"),
    (["0 9 * * *", "--count", "-1"], 2, "✗ Invalid value for '--count'"),
    (["0 9 * * *", "--count", "10001"], 2, "✗ Invalid value for '--count'"),
    (["0 9 * * *", "--count", "ten"], 2, "✗ Invalid value for '--count'"),
    (["0 9 * * *", "-o", "xml"], 2, "✗ Invalid value for '-o'"),
    (["H 9 * * *", "--key", "\udcff"], 2, "✗ Invalid value for '--key': not valid UTF-8"),
    (["\udcff"], 2, "✗ Invalid value for 'EXPR': not valid UTF-8"),
    (["0 9 * * *", "--colour"], 2, "✗ No such option"),
    (["0", "9", "*", "*", "*"], 2, '✗ EXPR must be one argument; put it in quotes:\n  chronosctl schedule'),
    ([], 2, "✗ Missing argument 'EXPR'"),
    ([""], 1, "✗ "),
    (["   "], 1, "✗ "),
    (["0 9 * *"], 1, "has 4 fields, expected 5"),
    (["0 9 * * *", "--dialect", "seconds"], 1, "has 5 fields, expected 6"),
    (["0 0 30 2 *"], 1, "never matches"),
    (["1," * 148 + "1 * * * *"], 1, "✗ schedule has 305 characters, allowed 256"),
    (["0 9 * * \0"], 1, "✗ cron field"),
    (["0 ٩ * * *"], 1, "✗ "),
    (["0 9 * * 🙂"], 1, "✗ "),
    (["@every 0s"], 1, "is zero"),
    (["@every -1h"], 1, "is negative"),
    (["R/2027-01-01/P0D"], 1, "has a period of zero"),
    (["0 9 * * *", "--dialect", "words"], 1, "✗ "),
]  # fmt: skip


@pytest.mark.parametrize("command", ["next", "explain"])
@pytest.mark.parametrize(("arguments", "code", "message"), BAD)
def test_invalid_arguments_are_rejected(command: str, arguments: list[str], code: int, message: str) -> None:
    result = run(command, *arguments)
    assert (result.exit_code, result.stdout) == (code, "")
    assert message in result.stderr
    assert result.stderr.startswith("✗ ")
    assert "Traceback" not in result.stderr
    assert all(char.isprintable() for char in result.stderr.replace("\n", ""))


def test_explain_warns() -> None:
    told = run("explain", "0 0 12 ? * 2-6", "--after", "2027-01-01", "--count", "1").stdout
    assert '! weekday "2-6" means Tue to Sat here and Mon to Fri in Quartz' in told
    union = run("explain", "*/90 * * * *; also @daily", "--end", "2020-01-01", "-o", "json").stdout
    assert [one["kind"] for one in json.loads(union)["warnings"]] == ["step_beyond_field", "ended", "ended"]
    quartz = run("explain", "0 0 12 ? * 2-6", "--dialect", "quartz", "-o", "json").stdout
    assert (json.loads(quartz)["words"], json.loads(quartz)["warnings"]) == ("Weekdays at 12:00, UTC", [])
