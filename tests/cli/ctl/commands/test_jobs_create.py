"""Creating what is there already is a conflict, also when it would say the same."""

from tests.support.cli_server import Served


def test_the_same_job_twice(served: Served) -> None:
    said = ("jobs", "create", "hello", "--every", "1h", "--", "echo", "hi")
    served.ctl(*said)
    again = served.ctl(*said, code=4)
    assert 'a job named "hello" exists already' in again.stderr
    assert again.stdout == ""
    assert served.rest("/jobs/hello")["version"] == 1
