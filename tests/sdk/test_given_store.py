"""A store engine that the program makes itself: ``Chronos(store=…)``."""

from pathlib import Path
from threading import Event
from typing import Any

import pytest

from chronos import Chronos, Invalid
from chronos.assembly import make_store
from chronos.store.sql.sqlite.store import SqliteStore


def test_an_app_opens_and_closes_its_store_each_time(tmp_path: Path) -> None:
    app = Chronos(store=make_store(f"sqlite:///{tmp_path}/app.db"))
    assert repr(app) == "<Chronos SqliteStore>"
    ran = Event()

    @app.job
    def work() -> str:
        ran.set()
        return "done"

    for runs in (1, 2):
        with app:
            assert work.trigger().result() == "done"
            assert len(work.executions()) == runs
    assert ran.is_set()


@pytest.mark.parametrize(
    ("arguments", "keywords", "message"),
    [
        ((), {}, "an app has one store; use its address"),
        (("sqlite://",), {"store": make_store("sqlite://")}, "an app has one store; use its address"),
        ((make_store("sqlite://"),), {}, "or store=… for an object"),
        ((), {"store": "sqlite://"}, "'sqlite://' is not a store: it lacks open, close, apply"),
        ((), {"store": SqliteStore}, "is not a store: it is a class"),
        ((), {"store": object()}, "use an object with the methods of chronos.store.contract.Store"),
    ],
)
def test_a_wrong_store_is_rejected(arguments: tuple[Any, ...], keywords: dict[str, Any], message: str) -> None:
    with pytest.raises(Invalid) as caught:
        Chronos(*arguments, **keywords)
    assert message in str(caught.value)
