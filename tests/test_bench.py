"""Benchmarks: the table of ratios and goals, and backlogs that run to the end."""

import asyncio
from pathlib import Path

import pytest

from bench import Goal, Row
from bench.__main__ import format_table
from bench.node import ASKS_NOTHING, FULL, GRAPH, NOOP, OPTIONS, SYNC, Work, command, drain, fill
from bench.stores import SqliteStores


def test_ratios_above_one_mean_we_are_better() -> None:
    assert Row(case="next", unit="µs", ours=2, others={"x": 10}).ratio("x") == 5
    assert Row(case="claims", unit="/s", ours=10, others={"x": 2}, higher_is_better=True).ratio("x") == 5


def test_the_table_has_a_column_per_library() -> None:
    rows = [
        Row(case="* * * * *", unit="µs", ours=2, others={"cronsim": 3}),
        Row(case="parse", unit="µs", ours=10, others={"croniter": 5}),
    ]
    assert format_table(rows).splitlines() == [
        "           unit  chronos       cronsim      croniter",
        "* * * * *    µs     2.00  3.00 (1.50×)             –",
        "parse        µs    10.00             –  5.00 (0.50×)",
    ]


def test_the_table_shows_goals() -> None:
    goal = Goal(must=0.7, aim=1, against="x")
    rows = [
        Row(case="a", unit="/s", ours=8, others={"x": 10}, higher_is_better=True, goal=goal),
        Row(case="b", unit="/s", ours=8),
    ]
    assert format_table(rows).splitlines() == [
        "   unit  chronos              x                          goal",
        "a    /s     8.00  10.00 (0.80×)  ≥ 0.7 × x: met, aim 1 missed",
        "b    /s     8.00              –",
    ]


@pytest.mark.parametrize(
    ("theirs", "verdict"),
    [
        (1, "≥ 0.7 × x: met, aim 1 met"),
        (1.25, "≥ 0.7 × x: met, aim 1 missed"),
        (1.5, "≥ 0.7 × x: missed"),
    ],
)
def test_a_goal_against_another_library_is_a_ratio(theirs: float, verdict: str) -> None:
    goal = Goal(must=0.7, aim=1, against="x")
    assert Row(case="", unit="/s", ours=1, others={"x": theirs}, higher_is_better=True, goal=goal).verdict() == verdict


def test_a_goal_without_a_library_is_an_absolute_value() -> None:
    assert Row(case="", unit="ms", ours=9, goal=Goal(must=10)).verdict() == "≤ 10 ms: met"
    assert Row(case="", unit="ms", ours=11, goal=Goal(must=10)).verdict() == "≤ 10 ms: missed"
    many = Goal(must=15_000)
    assert Row(case="", unit="/s", ours=15_000, higher_is_better=True, goal=many).verdict() == "≥ 15,000 /s: met"
    assert Row(case="", unit="/s", ours=14_999, higher_is_better=True, goal=many).verdict() == "≥ 15,000 /s: missed"
    assert not Row(case="", unit="ms", ours=9).verdict()


def test_one_backlog_serves_all_functions(tmp_path: Path) -> None:
    files = SqliteStores(tmp_path)
    with files.empty() as filled:
        last = fill(filled, FULL, 20)
        for work in (FULL, SYNC, ASKS_NOTHING, NOOP, FULL):
            with files.copy(filled) as url:
                assert asyncio.run(drain(url, work, 20, last)) > 0


@pytest.mark.parametrize("work", [GRAPH, command(["echo", "done"], 2)])
def test_graphs_and_commands_run_to_the_end(tmp_path: Path, work: Work) -> None:
    with SqliteStores(tmp_path).empty() as url:
        last = fill(url, work, 5)
        assert asyncio.run(drain(url, work, 5, last)) > 0


def test_a_backlog_that_fails_is_not_measured(tmp_path: Path) -> None:
    options = {**OPTIONS, "retries": 0}
    work = Work(declare=lambda app, _: app.command("command", ["false"], **options), counted=False)
    with SqliteStores(tmp_path).empty() as url:
        last = fill(url, work, 1)
        with pytest.raises(RuntimeError, match="0 of 1 executions of command succeeded"):
            asyncio.run(drain(url, work, 1, last))
