"""``@app.task``: functions that a program calls in the background."""

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pydantic
import pytest

from chronos import Chronos, Invalid, Unavailable
from tests.sdk.conftest import Make


@dataclass
class Line:
    article: str
    due: datetime


class Address(msgspec.Struct):
    city: str


class Customer(pydantic.BaseModel):
    name: str
    age: int


def test_a_task_is_called_in_the_background(app: Chronos) -> None:
    @app.task
    def send_mail(to: str, copies: int = 1) -> str:
        return f"{copies} to {to}"

    with app:
        assert send_mail("ana") == "1 to ana"
        assert send_mail.enqueue("ana", copies=2).result(timeout=30) == "2 to ana"
        assert send_mail.enqueue(to="ben").result(timeout=30) == "1 to ben"
        runs = send_mail.enqueue_many({"to": name} for name in ("ana", "ben"))
        assert [run.result(timeout=30) for run in runs] == ["1 to ana", "1 to ben"]
    info = send_mail.info()
    assert (info.schedule, info.state) == (None, "active")


def test_an_async_task_is_enqueued_from_a_coroutine(app: Chronos) -> None:
    @app.task(retries=0)
    async def double(number: int) -> int:
        return 2 * number

    async def use() -> list[int]:
        async with app:
            first = await double.aenqueue(4)
            more = await double.aenqueue_many([{"number": 5}])
            return [await run.aresult(timeout=30) for run in (first, *more)]

    assert asyncio.run(use()) == [8, 10]


def test_runs_of_a_task_overlap(app: Chronos) -> None:
    @app.task
    async def meet(ctx: Any) -> None:
        entered.append(ctx.execution_id)
        if len(entered) == 2:
            both.set()
        await both.wait()

    entered: list[str] = []

    async def use() -> None:
        async with app:
            for run in await meet.aenqueue_many([{}, {}]):
                await run.await_(timeout=30)

    both = asyncio.Event()
    asyncio.run(use())
    assert len(entered) == 2


def test_a_delayed_run_starts_later(app: Chronos) -> None:
    @app.task
    def note(ctx: Any) -> str:
        return str(ctx.scheduled_at.isoformat())

    with app:
        soon = datetime.now(UTC) + timedelta(milliseconds=300)
        run = note.enqueue(at=soon)
        assert (run.status, run.info().scheduled_at) == ("waiting", soon)
        assert run.result(timeout=30) == soon.isoformat()
        started_at = run.info().started_at
        assert started_at is not None
        assert started_at >= soon
        later = note.enqueue(delay="1h")
        later.cancel()
        assert later.status == "canceled"


def test_an_expired_run_is_skipped(app: Chronos) -> None:
    calls: list[str] = []

    @app.task(isolation="inline")
    def note(word: str) -> None:
        calls.append(word)

    late = note.enqueue("late", expires=0.001)
    fresh = note.enqueue("fresh", expires=datetime.now(UTC) + timedelta(hours=1))
    with app:
        info = late.wait(timeout=30)
        assert (info.status, info.reason, info.message) == (
            "skipped",
            "expired",
            "It had not started when it expired.",
        )
        fresh.result(timeout=30)
    assert calls == ["fresh"]


def test_a_key_enqueues_once(app: Chronos) -> None:
    @app.task
    def note() -> None: ...

    assert note.enqueue(key="a").id == note.enqueue(key="a").id


def test_typed_parameters_and_results_are_converted(app: Chronos) -> None:
    @app.task
    def order(line: Line, customer: Customer, to: list[Address]) -> Line:
        assert isinstance(line, Line)
        assert isinstance(customer, Customer)
        assert isinstance(to[0], Address)
        return Line(f"{line.article} for {customer.name} in {to[0].city}", line.due)

    due = datetime(2027, 1, 1, tzinfo=UTC)
    with app:
        run = order.enqueue(Line("tea", due), customer=Customer(name="Ana", age=40), to=[Address(city="Rome")])
        assert run.result(timeout=30) == Line("tea for Ana in Rome", due)
        payload = {"line": {"article": "tea", "due": "2027-01-01T00:00:00Z"}, "customer": {"name": "B", "age": 1}}
        assert order.trigger({**payload, "to": [{"city": "Oslo"}]}).result(timeout=30)["article"] == "tea for B in Oslo"
    with pytest.raises(Invalid, match=r'payload of "order" has a wrong "customer": 1 validation error'):
        order.enqueue(Line("tea", due), {"name": "Ana", "age": "old"}, [])
    with pytest.raises(Invalid, match=r'wrong "to": Object missing required field `city` - at `\$\[0\]`'):
        order.trigger({**payload, "to": [{}]})


def test_wrong_arguments_are_refused_and_create_nothing(app: Chronos) -> None:
    @app.task
    def note(word: str) -> None: ...

    cases: list[tuple[Any, str]] = [
        (note.enqueue, 'lacks "word"'),
        (lambda: note.enqueue("a", "b"), "takes 1 arguments by position, but 2"),
        (lambda: note.enqueue("a", word="b"), 'gets "word" twice'),
        (lambda: note.enqueue("a", delay=-1), "delay is -1"),
        (lambda: note.enqueue("a", delay=1, at="2999-01-01T00:00:00Z"), "at and delay both"),
        (lambda: note.enqueue("a", expires="soon"), 'invalid expires "soon"'),
        (lambda: note.enqueue("a", connection=object()), "needs a store on PostgreSQL"),
        (lambda: note.enqueue("a", key="k", connection=object()), "leave key out"),
        (lambda: note.enqueue_many({"word": "a"}), "use a list of objects"),  # type: ignore[dict-item]
        (lambda: note.enqueue_many([{"word": "a"}, {}]), 'lacks "word"'),
        (lambda: note.enqueue_many([{"word": "a"}] * 10_001), "10,001 payloads are given, allowed 10,000"),
    ]
    for call, message in cases:
        with pytest.raises(Invalid, match=message):
            call()
    assert note.enqueue_many([]) == []
    assert note.executions() == []


def test_many_runs_are_created_together_or_not_at_all(app: Chronos) -> None:
    @app.task(concurrency=1, queue_max=2)
    def note() -> None: ...

    with pytest.raises(Unavailable, match='queue of "note" has no room for 4 runs'):
        note.enqueue_many([{}] * 4)
    assert note.executions() == []
    assert len(note.enqueue_many([{}] * 3)) == 3


def test_a_task_is_checked_where_it_is_declared(app: Chronos) -> None:
    def remind(delay: int) -> None: ...

    with pytest.raises(Invalid, match=r'remind: the parameter "delay" has the name of an option of enqueue'):
        app.task(remind)
    with pytest.raises(Invalid, match=r'unknown keyword "cron"'):
        app.task(cron="* * * * *")(lambda: None)  # type: ignore[call-overload]


def test_a_trigger_may_be_delayed(make: Make, url: str) -> None:
    app = make(url)

    @app.job
    def tidy() -> str:
        return "done"

    with app:
        assert tidy.trigger(in_=0.01).result(timeout=30) == "done"
        assert app.trigger("tidy", at=datetime.now(UTC) + timedelta(milliseconds=10)).result(timeout=30) == "done"
        with pytest.raises(Invalid, match="at and in_ both"):
            tidy.trigger(in_=1, at="2999-01-01T00:00:00Z")
