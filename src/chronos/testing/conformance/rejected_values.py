"""Values that no engine can store: every engine rejects NUL, lone surrogates and huge numbers, and writes nothing."""

from collections.abc import Awaitable, Callable
from typing import Any

from chronos.core.job import JobState
from chronos.core.node import Actor
from chronos.core.token import ApiToken
from chronos.errors import Invalid
from chronos.store.commands import CancelExecution, CreateToken, RegisterNode, SaveJobs, Signal
from chronos.store.contract import JobFilter
from chronos.testing.conformance.fixture import StoreFixture, raises

_UNSTORABLE_TEXTS = {"a\0b": "NUL", "a\ud800b": "surrogate"}
_BEYOND_INT64 = 1 << 63


async def case_unstorable_text_is_rejected(fixture: StoreFixture) -> None:
    saved = await fixture.save("job")
    run = await fixture.trigger(saved.id)
    before = (await fixture.store.audit(namespace=None, limit=99)).items
    for text, fault in _UNSTORABLE_TEXTS.items():
        writes: list[Callable[[str], Awaitable[Any]]] = [
            fixture.save,
            lambda text: fixture.save("other", namespace=text),
            lambda text: fixture.save("other", owner=text),
            lambda text: fixture.save("other", tags={text: ""}),
            lambda text: fixture.save("other", tags={"tag": text}),
            lambda text: fixture.store.apply(
                SaveJobs(rows=(fixture.build_job_row("other"),), now_us=fixture.now_us, idempotency=text)
            ),
            lambda text: fixture.trigger(saved.id, actor=Actor(name=text)),
            lambda text: fixture.set_state(saved.id, JobState.PAUSED, note=text),
            lambda text: fixture.set_state(saved.id, JobState.PAUSED, actor=Actor(origin=text)),
            lambda text: fixture.store.apply(CancelExecution(execution=run.id, now_us=fixture.now_us, message=text)),
            lambda text: fixture.store.apply(Signal(execution=run.id, name=text, payload="1", now_us=fixture.now_us)),
            lambda text: fixture.store.apply(
                CreateToken(token=ApiToken(name=text, token_hash="0"), now_us=fixture.now_us)
            ),
            lambda text: fixture.store.apply(
                RegisterNode(name=text, incarnation=fixture.new_request_id(), now_us=fixture.now_us)
            ),
            lambda text: fixture.store.apply(
                RegisterNode(
                    name="n", incarnation=fixture.new_request_id(), now_us=fixture.now_us, labels={"zone": text}
                )
            ),
        ]
        for write in writes:
            with raises(Invalid, fault):
                await write(text)
    assert (await fixture.store.audit(namespace=None, limit=99)).items == before
    assert [job.name for job in (await fixture.store.list_jobs(JobFilter(), limit=9)).items] == ["job"]


async def case_a_lone_surrogate_in_a_definition_is_rejected(fixture: StoreFixture) -> None:
    await fixture.start_node()
    rows = tuple(fixture.build_job_row(f"job-{n}", description="a\udc80" if n == 1 else "") for n in range(3))
    with raises(Invalid, "surrogate"):
        await fixture.store.apply(SaveJobs(rows=rows, now_us=fixture.now_us))
    assert (await fixture.store.list_jobs(JobFilter(), limit=9)).items == []
    await fixture.save("fine", description="a\0b")  # allowed within JSON
    assert (await fixture.job("fine")).spec.description == "a\0b"


async def case_numbers_beyond_64_bits_are_rejected(fixture: StoreFixture) -> None:
    saved = await fixture.save("job")
    for beyond in (_BEYOND_INT64, -_BEYOND_INT64 - 1):
        with raises(Invalid, "64 bits"):
            await fixture.save("other", next_us=beyond)
        with raises(Invalid, "64 bits"):
            await fixture.trigger(saved.id, scheduled_us=beyond)
        with raises(Invalid, "64 bits"):
            await fixture.set_state(saved.id, JobState.ACTIVE, next_us=beyond)
    await fixture.save("last", next_us=_BEYOND_INT64 - 1)
    assert (await fixture.job("last")).next_us == _BEYOND_INT64 - 1
