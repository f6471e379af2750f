"""Random events on a whole engine, on virtual time."""

from tests.support.engine_state_machine import run_machine


def test_the_engine_stays_sound() -> None:
    run_machine(examples=20, steps=30)
