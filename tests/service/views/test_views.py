"""Views: what people look at, from the store to typed values."""

import pytest

from chronos.core.calendar import SECOND_US
from chronos.core.execution import Status
from chronos.core.job import JobStatus
from chronos.core.node import Actor
from chronos.core.reasons import ReasonCode
from chronos.errors import Invalid
from chronos.service.views.dead_letter_groups import GroupBy, to_error_key
from chronos.service.views.job_rows import percentile
from chronos.store.commands import Beat, OutputRow, Settle, SettleRow, WriteOutput
from chronos.store.contract import ExecutionFilter, JobFilter
from tests.support.service_world import HOUR_US, START_US, World, in_world


def test_a_row_shows_recent_runs_durations_and_words() -> None:
    async def case(world: World) -> None:
        await world.save("job", schedule="0 * * * *", timezone="Europe/Paris")
        for number in range(3):
            world.clock.us = START_US + (number + 1) * HOUR_US
            run = await world.admit()
            world.tick((number + 1) * SECOND_US)
            await world.settle(run, Status.FAILED if number == 2 else Status.SUCCEEDED)
        page = await world.service.views.jobs.page(JobFilter(namespace="default"))
        [row] = page.rows
        assert [mark.status for mark in row.recent] == [Status.SUCCEEDED, Status.SUCCEEDED, Status.FAILED]
        assert [mark.duration_us for mark in row.recent] == [SECOND_US, 2 * SECOND_US, 3 * SECOND_US]
        assert (row.p50_us, row.p95_us) == (SECOND_US, 2 * SECOND_US)
        assert row.status is JobStatus.FAILING
        assert row.schedule is not None
        assert (row.schedule.zone, row.schedule.words) == ("Europe/Paris", f"{row.schedule.phrase}, Europe/Paris")
        assert row.last_run == row.recent[-1]
        counts = await world.service.views.jobs.counts("default")
        assert (counts.total, counts.by_status[JobStatus.FAILING]) == (1, 1)
        facets = await world.service.views.facets.get("default")
        assert [facet.value for facet in facets.zones] == ["Europe/Paris"]
        facts = await world.service.views.job_facts.get(row.job)
        assert facts.failing is not None
        assert (facts.failing.failures_in_a_row, facts.failing.counted_all) == (1, True)
        assert facts.failing.last_success is not None
        assert facts.failing.last_success.finished_us == facts.failing.last_success_us == row.last_success_us
        assert (facts.failing.version, facts.retried, facts.recent_runs) == (None, 0, 3)

    in_world(case)


def test_upcoming_runs_have_the_clock_of_their_zone() -> None:
    async def case(world: World) -> None:
        await world.save("job", schedule="30 2 * * *", timezone="Europe/Paris")
        upcoming = world.service.views.upcoming.of(await world.jobs.get("job"), 100)
        assert [run.wall_us - run.at_us for run in upcoming.runs[:2]] == [HOUR_US] * 2
        [changed] = [run for run in upcoming.runs if run.clock_changed]
        assert changed.note is not None
        assert "does not exist on 2027-03-28" in changed.note
        assert (changed.offset_s, len(upcoming.clock_changes)) == (7200, 2)
        await world.switch("pause", "job")
        assert world.service.views.upcoming.of(await world.jobs.get("job")).runs == ()

    in_world(case)


def test_facts_say_who_paused_a_job_and_what_follows_it() -> None:
    async def case(world: World) -> None:
        await world.save("first")
        await world.save("second", after=[{"job": "first"}])
        await world.switch("pause", "first", reason="vacation", actor=Actor(name="ana"))
        facts = await world.service.views.job_facts.get(await world.jobs.get("first"))
        assert facts.paused is not None
        assert (facts.paused.by, facts.paused.reason) == ("ana", "vacation")
        assert facts.downstream == ("second",)
        assert (await world.service.views.job_facts.get(await world.jobs.get("second"))).upstream == ("first",)

    in_world(case)


def test_runs_are_listed_with_their_neighbours() -> None:
    async def case(world: World) -> None:
        await world.save("job", schedule="0 * * * *")
        runs = []
        for number in range(3):
            world.clock.us = START_US + (number + 1) * HOUR_US
            runs.append(await world.admit())
            if number < 2:
                await world.settle(runs[-1])
        views = world.service.views
        page = await views.runs.page(ExecutionFilter(statuses=(Status.SUCCEEDED,)), namespace="default")
        assert [row.item.id for row in page.rows] == [runs[1].id, runs[0].id]
        assert (await views.runs.page(ExecutionFilter(), namespace="other")).rows == ()
        [open_run] = await views.runs.in_progress(namespace="default")
        assert (open_run.item.id, open_run.status) == (runs[2].id, "running")
        middle = (await world.runs.get(runs[1].id)).execution
        assert await views.runs.neighbours(middle) == (runs[0].id, runs[2].id)
        stats = await views.stats.runs(START_US, START_US + 4 * HOUR_US, HOUR_US)
        assert [bucket.counts for bucket in stats.buckets] == [{}, {Status.SUCCEEDED: 1}, {Status.SUCCEEDED: 1}, {}]
        assert (stats.complete, stats.totals) == (True, {Status.SUCCEEDED: 2})
        with pytest.raises(Invalid, match="buckets"):
            await views.stats.runs(START_US, START_US + 4 * HOUR_US, 1)

    in_world(case)


def test_a_log_is_read_by_windows() -> None:
    async def case(world: World) -> None:
        await world.save("job")
        run = await world.admit()
        text = "".join(f"line {number}{' é' if number == 2 else ''}\n" for number in range(1, 11)) + "x" * 5_000
        await world.store.apply(WriteOutput(rows=(OutputRow(run.id, "main", 1, 0, text),)))
        logs = world.service.views.logs
        [part] = await logs.parts(run.id)
        assert (part.lines, part.bytes) == (11, len(text.encode()))
        first = await logs.window(run.id, "main", 1, max_lines=3)
        assert [line.text for line in first.lines] == ["line 1", "line 2 é", "line 3"]
        assert (first.total_lines, first.total_bytes, first.previous_byte) == (11, len(text.encode()), None)
        second = await logs.window(run.id, "main", 1, from_byte=first.next_byte, max_lines=3)
        assert [line.number for line in second.lines] == [4, 5, 6]
        assert second.previous_byte == 0
        tail = await logs.window(run.id, "main", 1, tail=2, search="LINE 1")
        assert [(line.number, line.matches, line.cut_bytes) for line in tail.lines] == [(10, True, 0), (11, False, 904)]
        assert (tail.match_count, tail.match_lines, tail.next_byte) == (2, (1, 10), None)
        assert (await logs.window(run.id, "main", 1, tail=1, whole_lines=True)).lines[0].text == "x" * 5_000
        assert (await logs.window(run.id, "other", 1)).lines == ()
        with pytest.raises(Invalid, match="only one"):
            await logs.window(run.id, "main", 1, tail=1, from_byte=0)
        with pytest.raises(Invalid, match="lines"):
            await logs.window(run.id, "main", 1, max_lines=0)

    in_world(case)


def test_nodes_and_queues_show_their_load() -> None:
    async def case(world: World) -> None:
        await world.save("job")
        await world.save("mail", queue="mail")
        await world.admit()
        await world.store.apply(Beat(node=world.node, beat=1, now_us=world.clock.us))
        [node] = await world.service.views.cluster.nodes()
        assert (node.state.value, node.running) == ("alive", 1)
        queues = {row.queue: row for row in await world.service.views.cluster.queues()}
        assert (queues["default"].running, queues["default"].served_by) == (1, (node.node.name,))
        assert queues["mail"].ready == 0
        world.tick(HOUR_US)
        [silent] = await world.service.views.cluster.nodes()
        assert silent.state.value == "lost"

    in_world(case)


def test_errors_that_differ_in_numbers_ids_and_quotes_are_one_group() -> None:
    one = to_error_key('the server answered 503: "the warehouse is read-only" for 3f2b8c1d-0000-4000-8000-000000000001')
    two = to_error_key('the server answered 503: "disk full" for 3f2b8c1d-0000-4000-8000-0000000000ff')
    assert one == two == "the server answered <n>: <text> for <id>"
    assert to_error_key("can't open it, don't know why") == "can't open it, don't know why"
    assert len(to_error_key("word " * 100)) == 120


def test_dead_letters_are_grouped_with_a_trend() -> None:
    async def case(world: World) -> None:
        await world.save("job", overlap="allow", schedule="0 * * * *")
        for number in range(3):
            world.clock.us = START_US + (number + 1) * HOUR_US
            run = await world.admit()
            row = SettleRow(
                *(run.id, run.job, run.token, Status.FAILED, ReasonCode.TASK_FAILED, f"exit status {number}"),
                world.clock.us,
                dead_letter=True,
            )
            await world.store.apply(Settle(rows=(row,), node=world.node, now_us=world.clock.us))
        letters = world.service.views.dead_letters
        found = await letters.groups(namespace="default")
        [group] = found.groups
        assert (group.count, group.error, group.job_names, group.trend[-1]) == (3, "exit status <n>", ("job",), 3)
        assert (await letters.groups(by=GroupBy.JOB)).groups[0].count == 3
        assert (await letters.groups(text="nothing")).groups == ()
        items, cursor = await letters.letters(text="STATUS 1", limit=1)
        assert ([letter.reason.message for letter, _ in items], cursor) == (["exit status 1"], None)
        items, cursor = await letters.letters(group=group.key, limit=2)
        assert (len(items), cursor) == (2, items[-1][0].execution)
        assert len((await letters.letters(group=group.key, limit=2, cursor=cursor))[0]) == 1

    in_world(case)


def test_percentiles_are_values_of_the_list() -> None:
    assert percentile([], 50) is None
    assert [percentile([1, 2, 3, 4], percent) for percent in (1, 50, 95, 100)] == [1, 2, 4, 4]
