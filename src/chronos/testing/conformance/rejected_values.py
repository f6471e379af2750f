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


async def case_unstorable_text_is_rejected(w: StoreFixture) -> None:
    saved = await w.save("job")
    run = await w.trigger(saved.id)
    before = (await w.store.audit(namespace=None, limit=99)).items
    for text, fault in _UNSTORABLE_TEXTS.items():
        writes: list[Callable[[str], Awaitable[Any]]] = [
            w.save,
            lambda text: w.save("other", namespace=text),
            lambda text: w.save("other", owner=text),
            lambda text: w.save("other", tags={text: ""}),
            lambda text: w.save("other", tags={"tag": text}),
            lambda text: w.store.apply(SaveJobs(rows=(w.row("other"),), now_us=w.now, idempotency=text)),
            lambda text: w.trigger(saved.id, actor=Actor(name=text)),
            lambda text: w.set_state(saved.id, JobState.PAUSED, note=text),
            lambda text: w.set_state(saved.id, JobState.PAUSED, actor=Actor(origin=text)),
            lambda text: w.store.apply(CancelExecution(execution=run.id, now_us=w.now, message=text)),
            lambda text: w.store.apply(Signal(execution=run.id, name=text, payload="1", now_us=w.now)),
            lambda text: w.store.apply(CreateToken(token=ApiToken(name=text, token_hash="0"), now_us=w.now)),
            lambda text: w.store.apply(RegisterNode(name=text, incarnation=w.request(), now_us=w.now)),
            lambda text: w.store.apply(
                RegisterNode(name="n", incarnation=w.request(), now_us=w.now, labels={"zone": text})
            ),
        ]
        for write in writes:
            with raises(Invalid, fault):
                await write(text)
    assert (await w.store.audit(namespace=None, limit=99)).items == before
    assert [job.name for job in (await w.store.list_jobs(JobFilter(), limit=9)).items] == ["job"]


async def case_a_lone_surrogate_in_a_definition_is_rejected(w: StoreFixture) -> None:
    await w.start_node()
    rows = tuple(w.row(f"job-{n}", description="a\udc80" if n == 1 else "") for n in range(3))
    with raises(Invalid, "surrogate"):
        await w.store.apply(SaveJobs(rows=rows, now_us=w.now))
    assert (await w.store.list_jobs(JobFilter(), limit=9)).items == []
    await w.save("fine", description="a\0b")  # allowed within JSON
    assert (await w.job("fine")).spec.description == "a\0b"


async def case_numbers_beyond_64_bits_are_rejected(w: StoreFixture) -> None:
    saved = await w.save("job")
    for beyond in (_BEYOND_INT64, -_BEYOND_INT64 - 1):
        with raises(Invalid, "64 bits"):
            await w.save("other", next_us=beyond)
        with raises(Invalid, "64 bits"):
            await w.trigger(saved.id, scheduled_us=beyond)
        with raises(Invalid, "64 bits"):
            await w.set_state(saved.id, JobState.ACTIVE, next_us=beyond)
    await w.save("last", next_us=_BEYOND_INT64 - 1)
    assert (await w.job("last")).next_us == _BEYOND_INT64 - 1
