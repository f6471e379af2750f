"""Rows of ``setting_effects`` for the server's ``defaults``."""

from chronos.core.execution import Status
from tests.server.setting_effects import Lived, lived

TWO_TASKS = [{"name": name, "python": {"name": name}} for name in ("first", "second")]


@lived("defaults.mode", "parallel", usually=5, then=0)
async def when_the_second_task_starts(here: Lived) -> float:
    here.world.work("first", takes=5)
    second = here.world.work("second")
    await here.node()
    await here.world.job("job", schedule="now", tasks=TWO_TASKS)
    await here.world.advance(10)
    return round(second.starts[0])


@lived("defaults.on_failure", "continue", usually=0, then=1)
async def starts_of_a_task_after_one_that_fails(here: Lived) -> int:
    here.world.work("first", fails=True)
    second = here.world.work("second")
    await here.node()
    await here.world.job("job", schedule="now", tasks=TWO_TASKS, retry={"max_attempts": 1})
    await here.world.advance(10)
    return len(second.starts)


@lived("defaults.retry.jitter", 0, usually=False, then=True)
async def whether_a_pause_is_exact(here: Lived) -> bool:
    work = here.world.work("work", fails=True)
    await here.node()
    await here.world.job("work", schedule="now", retry={"initial_interval": "100s", "max_attempts": 2})
    await here.world.advance(300)
    return abs(work.starts[1] - work.starts[0] - 100) < 0.01


@lived("defaults.retry.retry_on", ["ValueError"], usually=3, then=1)
async def attempts_after_a_runtime_error(here: Lived) -> int:
    work = here.world.work("work", fails=True)
    await here.node()
    await here.world.job("work", schedule="now")
    await here.world.advance(100)
    return len(work.starts)


@lived("defaults.delivery", "at_most_once", usually=2, then=1)
async def starts_of_work_whose_node_dies(here: Lived) -> int:
    work = here.world.work("work", takes=100)
    node = await here.node()
    await here.world.job("work", schedule="now")
    await here.world.advance(5)
    await node.crash()
    await here.node()
    await here.world.advance(60)
    return len(work.starts)


async def recovered_runs(here: Lived) -> int:
    """Of a minute without a node."""
    work = here.world.work("work")
    await here.world.job("work", schedule="@every 10s", overlap="queue", recovery={"strategy": "bounded"})
    await here.world.reach(65)
    await here.node()
    await here.world.reach(69)
    return len(work.starts)


lived("defaults.recovery.max_count", 2, usually=6, then=2)(recovered_runs)
lived("defaults.recovery.max_age", "20s", usually=6, then=2)(recovered_runs)


@lived("defaults.recovery.after", "1h", usually=0, then=6)
async def runs_of_a_minute_that_is_not_recovered(here: Lived) -> int:
    work = here.world.work("work")
    await here.world.job("work", schedule="@every 10s", overlap="queue", recovery={"strategy": "skip"})
    await here.world.reach(65)
    await here.node()
    await here.world.reach(69)
    return len(work.starts)


@lived("defaults.priority", 9, usually=False, then=True, given={"dispatcher.max_concurrent": 1})
async def whether_later_work_goes_first(here: Lived) -> bool:
    here.world.work("sooner", takes=5)
    here.world.work("later", takes=5)
    await here.world.job("sooner", schedule="now", priority=5)
    await here.world.advance(10)
    await here.world.job("later", schedule="now")
    await here.node()
    await here.world.advance(30)
    sooner, later = await here.world.last("sooner"), await here.world.last("later")
    return (later.started_us or 0) < (sooner.started_us or 0)


async def first_starts_after_a_change(here: Lived, **options: object) -> list[float]:
    """Of a job whose interval was 10 seconds, and becomes 7 at second 1."""
    work = here.world.work("work")
    await here.node()
    await here.world.job("work", schedule="@every 10s")
    await here.world.reach(1)
    await here.world.job("work", schedule="@every 7s", **options)
    await here.world.reach(45)
    return [round(second) for second in work.starts[:3]]


@lived("defaults.update", "graceful", usually=[8, 15, 22], then=[10, 17, 24])
async def starts_after_a_change(here: Lived) -> list[float]:
    return await first_starts_after_a_change(here)


@lived("defaults.update.count", 2, usually=[10, 17, 24], then=[10, 20, 27], instead_of=1)
async def starts_after_a_change_in_a_window(here: Lived) -> list[float]:
    return await first_starts_after_a_change(here, update={"policy": "windowed"})


@lived("defaults.update.duration", "25s", usually=[10, 18, 25], then=[10, 20, 33], instead_of="10s")
async def starts_after_a_change_for_a_while(here: Lived) -> list[float]:
    return await first_starts_after_a_change(here, update={"policy": "windowed"})


@lived("defaults.concurrency.limit", 2, usually=5, then=2)
async def the_most_at_once_of_a_job(here: Lived) -> int:
    work = here.world.work("work", takes=5)
    await here.node()
    await here.world.job("work", schedule="@every 1s", overlap="allow")
    await here.world.reach(30.5)
    return work.most


@lived("defaults.concurrency.key", "{{ namespace }}", usually=2, then=1)
async def the_most_at_once_of_two_jobs(here: Lived) -> int:
    work = here.world.work("work", takes=5)
    await here.node()
    for name in ("one", "other"):
        await here.world.job(name, schedule="now", overlap="allow", does="work")
    await here.world.advance(30)
    return work.most


@lived("defaults.retention.max_count", 1, usually=True, then=False)
async def whether_all_of_many_runs_are_kept(here: Lived) -> bool:
    here.world.work("work")
    await here.node()
    await here.world.job("work", schedule="@every 1s")
    await here.world.reach(200)
    return len(await here.world.runs("work")) > 190


@lived("defaults.retention.max_age", "1m", usually=True, then=False)
async def whether_all_runs_are_kept_for_long(here: Lived) -> bool:
    here.world.work("work")
    await here.node()
    await here.world.job("work", schedule="@every 1s")
    await here.world.reach(200)
    return len(await here.world.runs("work")) > 190


async def starts(here: Lived, **options: object) -> int:
    work = here.world.work("work")
    await here.node()
    await here.world.job("work", schedule="now", **options)
    await here.world.advance(30)
    return len(work.starts)


@lived("defaults.queue", "slow", usually=1, then=0, given={"node.queues": ["default"]})
async def starts_on_a_node_of_the_queue_default(here: Lived) -> int:
    return await starts(here)


@lived("defaults.queue_max", 1, usually=10, then=1)
async def queued_behind_a_long_run(here: Lived) -> int:
    here.world.work("work", takes=100)
    await here.node()
    await here.world.job("work", schedule="@every 1s", overlap="queue")
    await here.world.reach(11.5)
    return await here.world.count(Status.QUEUED)


@lived("defaults.placement.labels", {"region": "eu"}, usually=1, then=0)
async def starts_on_a_node_without_labels(here: Lived) -> int:
    return await starts(here)


@lived("defaults.placement.fallback", "5s", usually=0, then=1)
async def starts_on_a_node_without_the_label(here: Lived) -> int:
    return await starts(here, placement={"labels": {"region": "eu"}})


async def pauses(here: Lived) -> list[float]:
    """Before the second and the third attempt."""
    work = here.world.work("work", fails=True)
    await here.node()
    await here.world.job("work", schedule="now", retry={"jitter": 0})
    await here.world.advance(1_000)
    return [round(later - sooner, 1) for sooner, later in zip(work.starts, work.starts[1:], strict=False)]


lived("defaults.retry.max_attempts", 2, usually=[1, 2], then=[1])(pauses)
lived("defaults.retry.initial_interval", "5s", usually=[1, 2], then=[5, 10])(pauses)
lived("defaults.retry.multiplier", 3, usually=[1, 2], then=[1, 3])(pauses)
lived("defaults.retry.max_interval", "1s", usually=[1, 2], then=[1, 1])(pauses)


@lived("defaults.retry.timeout_multiplier", 3, usually=[10, 10, 10], then=[10, 30, 90])
async def timeouts(here: Lived) -> list[float]:
    """Of the attempts of a task that never ends."""
    work = here.world.work("work", takes=1_000)
    await here.node()
    await here.world.job("work", schedule="now", timeout="10s")
    await here.world.advance(1_000)
    return [round(end - start, -1) for start, end in zip(work.starts, work.cut, strict=True)]  # timers are shared


@lived("defaults.execution_timeout", "10s", usually=[3600], then=[10])
async def when_the_time_of_an_execution_is_over(here: Lived) -> list[float]:
    work = here.world.work("work", takes=9_000)
    await here.node()
    await here.world.job("work", schedule="now", timeout="3h", retry={"max_attempts": 1})
    await here.world.advance(3_700)
    return work.cut


@lived("defaults.task_timeout", "10s", usually=[300], then=[10])
async def when_the_time_of_an_attempt_is_over(here: Lived) -> list[float]:
    work = here.world.work("work", takes=500)
    await here.node()
    await here.world.job("work", schedule="now", retry={"max_attempts": 1})
    await here.world.advance(600)
    return [round(at, -1) for at in work.cut]  # deadlines of minutes are kept to the second


@lived("defaults.overlap", "allow", usually=1, then=5)
async def the_most_at_once_of_a_job_that_says_nothing(here: Lived) -> int:
    work = here.world.work("work", takes=5)
    await here.node()
    await here.world.job("work", schedule="@every 1s")
    await here.world.reach(30.5)
    return work.most


@lived("defaults.recovery", "all", usually=1, then=6)
async def runs_of_what_was_missed_in_a_minute(here: Lived) -> int:
    work = here.world.work("work")
    await here.world.job("work", schedule="@every 10s", overlap="queue")
    await here.world.reach(65)
    await here.node()
    await here.world.reach(69)
    return len(work.starts)
