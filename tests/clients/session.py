"""A program that uses the generated client ``chronos_client``, with the address of a server as its argument.

It prints the responses as JSON.
"""

import importlib
import json
import pkgutil
import sys
import time

import chronos_client
from chronos_client import Client
from chronos_client.api.executions import get_executions, get_executions_id, post_jobs_ref_trigger
from chronos_client.api.jobs import (
    get_jobs,
    get_jobs_ref,
    patch_jobs_ref,
    post_apply,
    post_jobs,
    post_jobs_bulk,
    put_jobs_ref,
)
from chronos_client.api.schedules import post_schedule_preview
from chronos_client.models import (
    CommandTarget,
    JobFields,
    JobInput,
    JobPatch,
    PostApplyBody,
    PostJobsBulkBody,
    PostJobsRefTriggerBody,
    PostSchedulePreviewBody,
    Problem,
    Schedule,
)


def main(url: str) -> dict[str, object]:
    """Run every request that the test checks."""
    with Client(base_url=url) as client:
        return session(client)


def session(client: Client) -> dict[str, object]:
    """Send one request after the other, and return the responses."""
    modules = [module.name for module in pkgutil.walk_packages(chronos_client.__path__, "chronos_client.")]
    for name in modules:
        importlib.import_module(name)
    job = JobInput(name="report", schedule="manual", command=CommandTarget(argv=["true"]))
    created = post_jobs.sync(client=client, body=job)
    listed = get_jobs.sync(client=client)
    got = get_jobs_ref.sync("report", client=client)
    triggered = post_jobs_ref_trigger.sync("report", client=client, body=PostJobsRefTriggerBody(reason="a test"))
    end_s = time.monotonic() + 60
    while (run := get_executions_id.sync(str(triggered.execution_id), client=client)).finished_at is None:
        assert time.monotonic() < end_s, run
        time.sleep(0.02)
    runs = get_executions.sync(client=client, job="report")

    command = CommandTarget(argv=["true"])
    put = put_jobs_ref.sync("other", client=client, body=JobFields(schedule=Schedule(every="1h"), command=command))
    patched = patch_jobs_ref.sync("other", client=client, body=JobPatch.from_dict({"priority": 7}))
    bulk = post_jobs_bulk.sync(client=client, body=PostJobsBulkBody(jobs=[job.to_dict(), {"name": "a b"}]))
    applied = JobInput(name="c", command=command)
    apply = post_apply.sync(client=client, body=PostApplyBody(jobs=[applied], owner="suite"))
    preview = post_schedule_preview.sync(client=client, body=PostSchedulePreviewBody(schedule="30 2 * * *", count=3))
    missing = get_jobs_ref.sync("missing", client=client)
    assert isinstance(missing, Problem)
    return {
        "modules": len(modules),
        "created": [created.name, created.version, created.state.value],
        "listed": [each.name for each in listed.items],
        "got": [got.id == created.id, got.schedule, got.tasks[0].command.argv],
        "run": [run.status.value, run.trigger.value, run.reason.code, [task.name for task in run.tasks]],
        "runs": [[each.kind, str(each.id) == str(triggered.execution_id)] for each in runs.items],
        "put": [put.name, put.schedule],
        "patched": [patched.version, patched.priority],
        "bulk": [each.result if isinstance(each.result, str) else each.result.value for each in bulk.results],
        "applied": [each.name for each in apply.created],
        "preview": len(preview.next_),
        "missing": [missing.status, missing.code],
    }


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1])))
