"""``chronosctl jobs export``: what it prints, ``jobs apply`` takes."""

import json

import pytest

from tests.support.cli_server import Served


@pytest.mark.parametrize("form", ["yaml", "json"])
def test_exported_jobs_can_be_applied(served: Served, form: str) -> None:
    served.create("a")
    served.create("b", schedule="0 9 * * *")
    served.ctl("jobs", "create", "c", "--after", "a", "--url", "http://example.com", "--auth", "bearer:abc")
    served.ctl("jobs", "apply", "-f", "-", input=served.ctl("jobs", "export", "--all", "-o", form).stdout)
    exported = served.ctl("jobs", "export", "--all", "-o", form)
    assert exported.stderr.startswith("! credentials are shown as ***")
    again = served.ctl("jobs", "apply", "-f", "-", "--dry-run", input=exported.stdout)
    assert "0 created, 0 changed, 3 unchanged" in again.stderr
    served.ctl("jobs", "delete", "--prefix", "a")
    served.ctl("jobs", "delete", "b")
    one = served.ctl("jobs", "apply", "-f", "-", input=served.ctl("jobs", "export", "c").stdout, code=1)
    assert "after" in one.stderr


def test_read_only_fields_are_left_out(served: Served) -> None:
    served.create()
    [job] = json.loads(served.ctl("jobs", "export", "hello", "-o", "json").stdout)["jobs"]
    assert set(job) == {"name", "namespace", "enabled", "schedule", "tasks", "retry"}


def test_a_selection_is_needed(served: Served) -> None:
    served.ctl("jobs", "export", code=2)
    served.ctl("jobs", "export", "ghost", code=3)
    assert served.ctl("jobs", "export", "--prefix", "ghost").stderr == "no job matches\n"


def test_jobs_that_ran_once_are_left_out(served: Served) -> None:
    served.create()
    served.ctl("runs", "create", "--", "true")
    served.ctl("jobs", "create", "once", "--now", "--", "true")
    exported = served.ctl("jobs", "export", "--all", "-o", "json")
    assert [job["name"] for job in json.loads(exported.stdout)["jobs"]] == ["hello"]
    assert "2 jobs that ran once" in exported.stderr
