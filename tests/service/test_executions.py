"""Triggers, backfills, replays, cancellation, and executions as JSON."""

from typing import Any

import msgspec
import pytest

from chronos.core.calendar import SECOND_US
from chronos.core.concurrency_key import find_key_gate, key_limit
from chronos.core.config import Mode, OnFailure
from chronos.core.execution import AttemptStatus, Cause, Status, TaskStatus
from chronos.core.execution_detail import Detail, write_detail
from chronos.core.execution_report import Report, TaskReport
from chronos.core.ids import attempt_id, key_gate_id, task_run_id
from chronos.core.task_group import TaskGroup, TaskState
from chronos.errors import Conflict, Invalid, NotFound, QueueFull
from chronos.service.serializers import id_text
from chronos.store.commands import EndedAttempt, OutputRow, Suspend, SuspendRow, WriteOutput
from chronos.store.contract import ExecutionFilter
from tests.support.service_world import HOUR_US, START_US, World, in_world


def test_a_trigger_runs_now_with_its_payload() -> None:
    async def case(world: World) -> None:
        await world.save(payload={"own": True})
        triggered = await world.runs.trigger("job", {"a": 1}, reason="to see")
        assert (triggered.status, triggered.created) == (Status.READY, True)
        shown = await world.runs.get_json(triggered.id)
        assert (shown["trigger"], shown["payload"], shown["asked_because"]) == ("manual", {"a": 1}, "to see")
        assert shown["scheduled_at"] == "2027-01-01T00:00:00Z"
        assert shown["tasks"] == [
            {
                "name": "main",
                "task_run_id": id_text(task_run_id(triggered.id, "main")),
                "status": "pending",
                "started_at": None,
                "finished_at": None,
                "error": None,
                "attempts": [],
            }
        ]

    in_world(case)


def test_the_same_idempotency_key_returns_the_same_execution() -> None:
    async def case(world: World) -> None:
        await world.save(overlap="allow")
        first = await world.runs.trigger("job", idempotency="k")
        world.tick()
        again = await world.runs.trigger("job", idempotency="k")
        assert (again.id, again.created) == (first.id, False)
        other = await world.runs.trigger("job")
        another = await world.runs.trigger("job")
        assert len({first.id, other.id, another.id}) == 3

    in_world(case)


def test_a_changed_concurrency_key_applies_to_queued_runs() -> None:
    async def case(world: World) -> None:
        async def save(**concurrency: Any) -> None:
            world.tick()
            await world.save(overlap="allow", concurrency=concurrency)

        async def statuses() -> list[Status]:
            found = [await world.store.execution(one.id) for one in triggered]
            return [view.execution.status for view in found if view is not None]

        await save(key="{{ payload.customer }}")
        triggered = []
        for customer in ("a", "a", "a", "b"):
            world.tick()
            triggered.append(await world.runs.trigger("job", {"customer": customer, "region": "eu"}))
        ready, queued = Status.READY, Status.QUEUED
        assert await statuses() == [ready, queued, queued, ready]
        await save(key="{{ payload.customer }}", limit=2)
        assert await statuses() == [ready, ready, queued, ready]
        await save(key="{{ payload.region }}", limit=3)
        assert await statuses() == [ready, ready, queued, ready]
        await save(key="{{ payload.region }}", limit=1)
        assert await statuses() == [ready, queued, queued, queued]
        await save()
        assert await statuses() == [ready] * 4
        assert await world.store.verify() == []

    in_world(case)


def test_invalid_trigger_arguments_are_rejected() -> None:
    async def case(world: World) -> None:
        await world.save()
        with pytest.raises(NotFound):
            await world.runs.trigger("missing")
        with pytest.raises(Invalid, match="at and delay"):
            await world.runs.trigger("job", at_us=START_US + 1, delay="1m")
        with pytest.raises(Invalid, match="delay: "):
            await world.runs.trigger("job", delay="soon")
        with pytest.raises(Invalid, match='invalid expires "soon"'):
            await world.runs.trigger("job", expires="soon")
        with pytest.raises(Invalid, match="choose a later time"):
            await world.runs.trigger("job", delay="1h", expires="1h")
        with pytest.raises(Invalid, match="payload"):
            await world.runs.trigger("job", {"a": object()})
        with pytest.raises(Invalid, match="larger"):
            await world.runs.trigger("job", "x" * 300_000)
        past = await world.runs.trigger("job", at_us=START_US - HOUR_US)
        assert (await world.runs.get(past.id)).execution.scheduled_us == START_US - HOUR_US

    in_world(case)


def test_a_trigger_beyond_the_pending_limit_is_queue_full() -> None:
    async def case(world: World) -> None:
        await world.save(overlap="allow")
        for _ in range(3):
            await world.runs.trigger("job")
        with pytest.raises(QueueFull, match="allowed 3"):
            await world.runs.trigger("job")
        for run in await world.claim():
            await world.settle(run)
        world.tick()
        assert (await world.runs.trigger("job")).created

    in_world(case, max_pending=3)


def test_equal_concurrency_keys_share_a_limit() -> None:
    async def case(world: World) -> None:
        await world.save(overlap="allow", concurrency={"key": "{{ payload.customer }}"})
        one = await world.runs.trigger("job", {"customer": "a"})
        two = await world.runs.trigger("job", {"customer": "a"})
        other = await world.runs.trigger("job", {"customer": "b"})
        assert [one.status, two.status, other.status] == [Status.READY, Status.QUEUED, Status.READY]

    in_world(case)


def test_a_concurrency_key_is_rendered_from_the_payload() -> None:
    async def case(world: World) -> None:
        saved = await world.save(concurrency={"key": "{{ job.name }}-{{payload.a.0}}-{{ payload.b }}", "limit": 4})
        job = await world.jobs.get(saved.name)
        effective = await world.jobs.effective_settings(job)
        key = find_key_gate(effective, namespace="eu", name="job", payload={"a": [1.5]})
        assert key == key_gate_id("eu", "job-1.5-")
        assert key_limit(effective) == 4
        to_plain_json = await world.jobs.effective_settings(await world.jobs.get((await world.save("plain")).name))
        assert find_key_gate(to_plain_json, namespace="eu", name="plain", payload=None) is None
        assert key_limit(to_plain_json) == 1

    in_world(case)


def test_a_backfill_runs_a_past_range() -> None:
    async def case(world: World) -> None:
        saved = await world.save(overlap="queue")
        done = await world.backfills.run("job", START_US - 3 * HOUR_US, START_US, idempotency="b")
        assert (len(done.ids), done.next_us) == (4, None)
        page = await world.runs.list(ExecutionFilter(job=saved.job_id))
        assert sorted((run.scheduled_us - START_US) // HOUR_US for run in page.items) == [-3, -2, -1, 0]  # type: ignore[union-attr]
        assert {run.cause for run in page.items} == {Cause.BACKFILL}  # type: ignore[union-attr]
        again = await world.backfills.run("job", START_US - 3 * HOUR_US, START_US, idempotency="b")
        assert again.ids == done.ids
        with pytest.raises(Invalid, match="no scheduled times"):
            await world.backfills.run("job", START_US - 10, START_US - 5)
        with pytest.raises(Invalid, match="past"):
            await world.backfills.run("job", START_US, START_US + 5)
        await world.save("hand", schedule="manual")
        with pytest.raises(Invalid, match="no schedule"):
            await world.backfills.run("hand", START_US - 5, START_US)

    in_world(case)


def test_a_backfill_returns_where_to_continue() -> None:
    async def case(world: World) -> None:
        await world.save(overlap="queue", queue_max=2)
        done = await world.backfills.run("job", START_US - 9 * HOUR_US, START_US)
        assert (len(done.ids), done.next_us) == (3, START_US - 6 * HOUR_US)
        with pytest.raises(QueueFull, match='the queue of "job" is full'):
            await world.backfills.run("job", START_US - 6 * HOUR_US, START_US)
        [run] = await world.claim()
        await world.settle(run)
        done = await world.backfills.run("job", START_US - 6 * HOUR_US, START_US)
        assert (len(done.ids), done.next_us) == (1, START_US - 5 * HOUR_US)

    in_world(case)


def test_a_backfill_creates_as_many_runs_as_fit() -> None:
    async def case(world: World) -> None:
        await world.save(overlap="allow")
        done = await world.backfills.run("job", START_US - 9 * HOUR_US, START_US)
        assert (len(done.ids), done.next_us) == (4, START_US - 5 * HOUR_US)
        with pytest.raises(QueueFull, match="4 runs are already waiting, allowed 4"):
            await world.backfills.run("job", START_US - 5 * HOUR_US, START_US)

    in_world(case, max_pending=4)


def test_a_backfill_stops_after_its_time_limit() -> None:
    async def case(world: World) -> None:
        await world.save(overlap="queue")
        first_us = START_US - 2 * 1000 * HOUR_US
        done = await world.backfills.run("job", first_us, START_US, within_us=0)
        assert done.next_us == first_us + len(done.ids) * HOUR_US
        assert 0 < len(done.ids) < 1000

    in_world(case)


def test_a_replay_runs_all_tasks_or_only_failed_ones() -> None:
    async def case(world: World) -> None:
        await world.save(tasks=[{"name": "a", "command": {}}, {"name": "b", "command": {}}])
        first = await world.runs.trigger("job", {"n": 1})
        with pytest.raises(Conflict, match="still ready"):
            await world.runs.replay(first.id)
        group = TaskGroup(
            began_us=START_US,
            tasks=(
                TaskState(name="a", status=TaskStatus.SUCCEEDED, attempts=1, started_us=START_US, result=7),
                TaskState(name="b", status=TaskStatus.FAILED, attempts=1, started_us=START_US, error="boom"),
            ),
        )
        [run] = await world.claim()
        detail = write_detail(Detail(payload={"n": 1}, group=group))
        await world.settle(run, Status.FAILED, detail=detail, dead_letter=True)
        world.tick()
        again = await world.runs.replay(id_text(first.id), reason="fixed", from_failed=True)
        view = await world.runs.get(again.id)
        assert view.execution.cause is Cause.REPLAY
        assert view.execution.scheduled_us == START_US
        assert view.execution.detail == {
            "payload": {"n": 1},
            "replay_of": first.id.hex(),
            "reason": "fixed",
            "carried": {"a": 7},
        }
        assert (await world.runs.get_json(again.id))["replay_of"] == id_text(first.id)

        assert [letter.execution for letter in (await world.runs.dead_letters()).items] == [first.id]
        once = await world.runs.replay_dead_letter(first.id, payload={"n": 2})
        assert (await world.runs.get(once.id)).execution.detail == {"payload": {"n": 2}, "replay_of": first.id.hex()}
        assert (await world.runs.replay_dead_letter(first.id)).id == once.id
        assert (await world.runs.dead_letters()).items == []
        await world.jobs.delete("job")
        with pytest.raises(NotFound, match="job of this execution was deleted"):
            await world.runs.replay(first.id)

    in_world(case)


def test_from_failed_needs_a_failed_task() -> None:
    async def case(world: World) -> None:
        await world.save()
        await world.runs.trigger("job")
        [run] = await world.claim()
        await world.settle(run)
        with pytest.raises(Invalid, match="no task of this execution failed"):
            await world.runs.replay(run.id, from_failed=True)

    in_world(case)


def test_cancel_and_signal() -> None:
    async def case(world: World) -> None:
        await world.save(overlap="allow")
        waiting = await world.runs.trigger("job")
        assert await world.runs.cancel(waiting.id, message="no need") is Status.CANCELED
        with pytest.raises(NotFound):
            await world.runs.cancel("what")
        with pytest.raises(NotFound):
            await world.runs.get("0" * 32)
        await world.runs.trigger("job")
        [run] = await world.claim()
        assert not await world.runs.signal(run.id, "go")
        row = SuspendRow(run.id, run.token, None, ("go",), 1, 0)
        await world.store.apply(Suspend(rows=(row,), now_us=world.clock.us))
        assert (await world.runs.get_json(run.id))["status"] == "waiting"
        assert await world.runs.signal(run.id, "go", {"ok": 1})
        detail = (await world.runs.get(run.id)).execution.detail
        assert detail == {"signals": {"go": {"ok": 1}}}

    in_world(case)


def test_a_first_attempt_success_is_written_from_its_columns() -> None:
    async def case(world: World) -> None:
        await world.save()
        run = await world.admit()
        running = await world.runs.get_json(run.id)
        assert [attempt["status"] for attempt in running["tasks"][0]["attempts"]] == ["running"]
        world.tick()
        await world.settle(run, detail=write_detail(Detail(result={"rows": 3})))
        shown = await world.runs.get_json(run.id)
        assert shown["tasks"] == [
            {
                "name": "main",
                "task_run_id": id_text(task_run_id(run.id, "main")),
                "status": "succeeded",
                "started_at": "2027-01-01T01:00:00Z",
                "finished_at": "2027-01-01T01:00:01Z",
                "error": None,
                "result": {"rows": 3},
                "attempts": [
                    {
                        "number": 1,
                        "attempt_id": id_text(attempt_id(run.id, "main", 1)),
                        "status": "succeeded",
                        "started_at": "2027-01-01T01:00:00Z",
                        "finished_at": "2027-01-01T01:00:01Z",
                        "error": None,
                        "worker": "node-a",
                    }
                ],
            }
        ]
        assert (shown["result"], shown["attempts"], shown["node"]) == ({"rows": 3}, 1, "node-a")
        assert (shown["lateness_ms"], shown["duration_ms"]) == (0, 1000)
        report = shown["report"]  # built when it is read; none is stored
        assert (report["status"], report["worked_ms"], report["tasks"][0]["result"]) == ("succeeded", 1000, {"rows": 3})
        assert shown["reason"] == {"code": "succeeded", "message": "Every task succeeded."}
        assert shown["job_name"] == "job"
        page = await world.runs.list_json()
        assert [item["id"] for item in page.items] == [id_text(run.id)]
        assert "tasks" not in page.items[0]
        await world.save("other")
        [last] = (await world.runs.latest_json((await world.jobs.list()).items)).values()
        assert (last["id"], last["status"], last["job_name"]) == (id_text(run.id), "succeeded", "job")

    in_world(case)


def test_attempts_and_reports_are_written_as_recorded() -> None:
    async def case(world: World) -> None:
        await world.save()
        run = await world.admit()
        began_us = world.clock.us
        ended = EndedAttempt(
            *(run.id, "main", 1, AttemptStatus.FAILED, began_us, began_us + SECOND_US, world.node, "boom"),
            '{"exit_code": 3}',
        )
        task = TaskReport(name="main", status="failed", attempts=2, on_failure=OnFailure.FAIL_FAST, started_us=began_us)
        report = Report(
            mode=Mode.SEQUENTIAL,
            strategy=OnFailure.FAIL_FAST,
            status="failed",
            began_us=began_us,
            worked_us=SECOND_US,
            tasks=(task,),
        )
        world.tick(5 * SECOND_US)
        await world.settle(run, Status.FAILED, attempts=(ended,), detail=write_detail(Detail(report=report)))
        shown = await world.runs.get_json(run.id)
        [task_shown] = shown["tasks"]
        assert [(one["number"], one["status"]) for one in task_shown["attempts"]] == [(1, "failed"), (2, "failed")]
        assert task_shown["attempts"][0]["exit_code"] == 3
        assert shown["report"]["tasks"][0]["status"] == "failed"
        assert shown["report"]["worked_ms"] == 1000
        msgspec.json.encode(shown)

    in_world(case)


def test_a_task_that_was_removed_is_marked_retired_in_history() -> None:
    async def case(world: World) -> None:
        tasks: list[dict[str, Any]] = [{"name": name, "command": {}} for name in ("a", "b")]
        await world.save(tasks=tasks)
        run = await world.admit()
        tasks_ = tuple(
            TaskReport(name=name, status="succeeded", attempts=1, on_failure=OnFailure.FAIL_FAST) for name in ("a", "b")
        )
        report = Report(
            mode=Mode.SEQUENTIAL,
            strategy=OnFailure.FAIL_FAST,
            status="succeeded",
            began_us=world.clock.us,
            worked_us=SECOND_US,
            tasks=tasks_,
        )
        await world.settle(run, detail=write_detail(Detail(report=report)))

        async def retired() -> dict[str, Any]:
            return {task["name"]: task.get("retired") for task in (await world.runs.get_json(run.id))["tasks"]}

        assert await retired() == {"a": None, "b": None}
        await world.save(tasks=tasks[:1])
        assert await retired() == {"a": None, "b": True}
        await world.save(tasks=[*tasks, {"name": "c", "command": {}}])
        assert await retired() == {"a": None, "b": None}
        await world.jobs.delete("job")
        assert await retired() == {"a": None, "b": None}

    in_world(case)


def test_a_span_is_one_item() -> None:
    async def case(world: World) -> None:
        await world.save()
        await world.switch("pause", "job")
        world.tick(5 * HOUR_US)
        await world.switch("resume", "job")
        [item] = (await world.runs.list_json()).items
        assert (item["kind"], item["status"], item["count"]) == ("span", "skipped", 5)
        assert (item["from"], item["to"]) == ("2027-01-01T01:00:00Z", "2027-01-01T05:00:00Z")

    in_world(case)


def test_output() -> None:
    async def case(world: World) -> None:
        await world.save()
        run = await world.admit()
        await world.store.apply(WriteOutput(rows=(OutputRow(run.id, "main", 1, 0, "hello"),)))
        assert [row.text for row in await world.runs.output(run.id)] == ["hello"]

    in_world(case)
