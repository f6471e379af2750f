"""Random commands on all engines in parallel, compared with each other."""

from collections.abc import Callable, Sequence

from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from chronos.store.contract import Store
from chronos.store.sql.postgres.store import PostgresStore
from chronos.store.sql.sqlite.store import SqliteStore
from tests.support.store_state_machine import StoreMachine


def run_machine(make_stores: Callable[[], Sequence[Store]], *, examples: int, steps: int) -> None:
    """Search for a sequence of commands on which the stores differ or break a promise."""

    class Machine(StoreMachine):
        def __init__(self) -> None:
            super().__init__(make_stores)

    # A failure is reported without shrinking, which takes minutes.
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            phases=(Phase.generate,),
            report_multiple_bugs=False,
        ),
    )


def test_random_commands_keep_one_engine_consistent() -> None:
    run_machine(lambda: [SqliteStore()], examples=60, steps=40)


def test_random_commands_give_the_same_answers_on_all_engines(make_prepared: Callable[[], str]) -> None:
    run_machine(lambda: [SqliteStore(), PostgresStore(make_prepared())], examples=12, steps=30)
