"""Creating a job that exists is a conflict, even with the same definition."""

from tests.support.cli_server import Served


def test_creating_a_job_twice_is_a_conflict(served: Served) -> None:
    arguments = ("jobs", "create", "hello", "--every", "1h", "--", "echo", "hi")
    served.ctl(*arguments)
    again = served.ctl(*arguments, code=4)
    assert 'a job named "hello" exists already' in again.stderr
    assert again.stdout == ""
    assert served.rest("/jobs/hello")["version"] == 1
