"""The number of statements that work, of three programs that were written for other schedulers."""

from tests.ports import test_apscheduler, test_celery, test_schedule


def test_at_least_90_of_95_statements_work() -> None:
    programs = (test_apscheduler.PROGRAM, test_schedule.PROGRAM, test_celery.PROGRAM)
    statements = [statement for program in programs for statement in program.statements]
    assert len({statement.original for statement in statements}) == len(statements) == 95
    assert sum(statement.works for statement in statements) >= 90
