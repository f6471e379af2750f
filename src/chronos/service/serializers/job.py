"""Jobs as JSON. A job that was returned can be sent back and means the same."""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from chronos.core.calendar import rfc3339
from chronos.core.config import NOTHING_SET, Mode, Settings, UpdatePolicy
from chronos.core.credentials import MASK, hide_url_credentials, hide_userinfo, mask_fields_by_name, mask_options
from chronos.core.job import (
    DEFAULT_NAMESPACE,
    Job,
    JobSpec,
    JobState,
    ScheduleSpec,
    Target,
    Task,
    Unreadable,
    UpstreamCondition,
    UpstreamJob,
)
from chronos.core.lane import PYTHON
from chronos.core.schedule.schedule import Schedule
from chronos.core.schedule_change import find_missing_schedule, find_next_run_us
from chronos.core.task_group import build_layout
from chronos.errors import Invalid
from chronos.runners.target_kinds import list_target_fields
from chronos.service.serializers.identifiers import find_name_fault, id_text
from chronos.service.serializers.json_values import extend_pointer, to_plain_json
from chronos.service.serializers.object_reader import ObjectReader
from chronos.service.serializers.problems import InvalidJob, Problem
from chronos.service.serializers.schedule import read_schedule, write_schedule
from chronos.service.serializers.settings import read_overrides, read_settings, write_settings
from chronos.service.serializers.target import (
    Check,
    check_target,
    find_target_fields,
    read_target,
)

MAX_TASKS = 1_000
MAX_TAGS = 64
MAX_FOLLOWED = 100
MAX_DESCRIPTION = 10 * 1024
MAX_PAYLOAD = 256 * 1024
MAX_SPEC = 1024 * 1024  # bytes of the stored spec
NO_ALERTS = (
    "alerts are not supported yet, so none would be sent; leave the field out, or set it to null to remove it from a "
    "stored job"
)
DEFAULT_TASK_NAME = "main"  # of a single task without a name
MASK_BYTES = MASK.encode()

format_instant = lru_cache(maxsize=4_096)(rfc3339)  # many jobs run at the same time

#: Fields of responses that have no effect when sent back.
READ_ONLY_FIELDS = frozenset(
    (
        "id",
        "version",
        "state",
        "next_run_at",
        "held",
        "last_execution",
        "created_at",
        "updated_at",
        "note",
        "paused_at",
        "error",
        "diff",
        "warnings",
        # Fields that ``detail`` and ``include`` add.
        "status",
        "schedule_words",
        "schedule_zone",
        "understood_as",
        "overdue_by_ms",
        "failing_since",
        "last_success_at",
        "running_since",
        "open_runs",
        "recent",
        "p50_ms",
        "p95_ms",
        "failing",
        "paused",
        "upstream",
        "downstream",
        "version_author",
        "version_saved_at",
        "delay_p99_ms",
        "retried_runs",
        "recent_runs",
    )
)
#: Fields that few jobs set.
_RARE_FIELDS = frozenset(("after", "enabled", "description", "on_start", "on_complete", "alerts", "owner", "payload"))
_TARGET_POINTERS = ("/tasks", "/job_type")


class Draft(Struct, frozen=True, kw_only=True, eq=False, gc=False):
    """A job definition before it is saved. Two drafts are equal if they define the same job."""

    name: str
    spec: JobSpec
    namespace: str = DEFAULT_NAMESPACE
    parsed: tuple[ScheduleSpec, Schedule] | None = None
    state: JobState | None = None  # active or disabled; None: unchanged, or active for a new job
    runs_on_creation: bool = False  # no schedule at all: runs once, when it is created
    runs_on_every_change: bool = False  # schedule "now": runs once, each time a save changes it
    manual: bool = False  # schedule "manual": runs only when triggered
    schedule_pointer: str = "/schedule"  # of the schedule in the request
    end_after_us: int | None = None  # the end of the schedule as a duration: from its start, or from when it is saved
    target_pointers: dict[str, str] | None = None  # of the targets in the request; None: nothing is masked
    update_policy: UpdatePolicy | None = None  # for this change only; None: the policy of the job

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Draft) and self._identity() == other._identity()

    __hash__ = None  # type: ignore[assignment]  # a spec has none

    def _identity(self) -> tuple[object, ...]:
        runs = self.runs_on_creation, self.runs_on_every_change
        return self.name, self.namespace, self.spec, self.state, *runs, self.end_after_us

    @property
    def schedule(self) -> Schedule | None:
        """The parsed schedule; cached where possible. Raises ``InvalidSchedule``."""
        spec = self.spec.schedule
        if spec is None:
            return None
        return self.parsed[1] if self.parsed is not None and self.parsed[0] is spec else spec.parse(self.name)


def read_job(data: Any, *, checks: Mapping[str, Check], namespace: str = DEFAULT_NAMESPACE) -> Draft:
    """Read a job. ``checks`` maps each kind of target to its runner's check; other kinds are rejected.

    Raises ``InvalidJob`` with every problem, except those that depend on the time or on other jobs.
    """
    problems: list[Problem] = []
    data = to_plain_json(data, problems)
    if not isinstance(data, dict):
        raise InvalidJob(problems or [Problem("", "must be an object with a name, a schedule and tasks")])
    if "apiVersion" in data and "kind" in data:
        raise InvalidJob([Problem("", "is a Kubernetes manifest; write a job with a name, a schedule and tasks")])
    reader = ObjectReader(data, "", problems)
    name = _read_name(reader, "name")
    job_namespace = _read_name(reader, "namespace", default=namespace)
    reader.lacks(READ_ONLY_FIELDS)
    schedule_input = read_schedule(reader, name)
    tasks = _read_tasks(reader, checks)
    settings = _with_mode(reader, read_settings(reader), tasks)
    after: tuple[UpstreamJob, ...] = ()
    enabled: bool | None = None
    if reader.lacks(_RARE_FIELDS):
        tags = reader.text_map("tags", max_items=MAX_TAGS, listed=True)
        spec = JobSpec(schedule=schedule_input.spec, tasks=tasks, settings=settings, tags=tags)
    else:
        _refuse_alerts(reader)
        after = _read_after(reader, name)
        enabled = reader.boolean("enabled")
        spec = JobSpec(
            schedule=schedule_input.spec,
            tasks=tasks,
            settings=settings,
            description=reader.text("description", max_bytes=MAX_DESCRIPTION) or "",
            after=after,
            on_start=_read_hook(reader, "on_start", checks),
            on_complete=_read_hook(reader, "on_complete", checks),
            owner=reader.text("owner", max_bytes=200),
            tags=reader.text_map("tags", max_items=MAX_TAGS, listed=True),
            payload=_read_payload(reader),
        )
    reader.finish()
    encoded = _check_spec(spec, problems)
    if problems:
        raise InvalidJob(problems, name=name or None)
    return Draft(
        namespace=job_namespace,
        name=name,
        spec=spec,
        parsed=None
        if schedule_input.spec is None or schedule_input.schedule is None
        else (schedule_input.spec, schedule_input.schedule),
        state=None if enabled is None else JobState.ACTIVE if enabled else JobState.DISABLED,
        runs_on_creation=(
            schedule_input.spec is None and not schedule_input.manual and not after and enabled is not False
        ),
        runs_on_every_change=schedule_input.now,
        manual=schedule_input.manual,
        schedule_pointer=schedule_input.pointer,
        end_after_us=schedule_input.end_after_us,
        target_pointers=_find_target_pointers(data, spec, checks) if MASK_BYTES in encoded else None,
    )


def write_job(
    job: Job, *, now_us: int | None = None, last_execution: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Write a job: its definition and the fields that the server adds.

    ``now_us``: when a paused job would be resumed, for its next run; None leaves that out.
    """
    is_held = job.state is JobState.PAUSED
    next_us = None if is_held and now_us is None else find_next_run_us(job, now_us or 0)
    created_at = rfc3339(job.created_us)
    answer: dict[str, Any] = {
        "id": id_text(job.id),
        "name": job.name,
        "namespace": job.namespace,
        "version": job.version,
        "state": job.state.name.lower(),
        "enabled": job.state is not JobState.DISABLED,
        **write_spec(job.spec),
        "next_run_at": None if next_us is None else format_instant(next_us),
        "last_execution": None if last_execution is None else dict(last_execution),
        "created_at": created_at,
        "updated_at": created_at if job.updated_us == job.created_us else rfc3339(job.updated_us),
    }
    if is_done_after_one_run(job):
        answer.pop("schedule")  # sent back, "manual" would reactivate the job and "now" would run it again
    if note := describe_note(job):
        answer["note"] = note
    if is_held and next_us is not None:
        answer["held"] = True
    if job.paused_us is not None:
        answer["paused_at"] = rfc3339(job.paused_us)
    return answer


def describe_note(job: Job) -> str:
    """Return why a job is paused or disabled, or why this process leaves an active one alone; empty if neither."""
    if job.note or job.state is not JobState.ACTIVE:
        return job.note
    return find_missing_schedule(job.spec, job.name) or ""


def is_done_after_one_run(job: Job) -> bool:
    """Return whether a job is done because it ran once when it was saved."""
    return job.state is JobState.DONE and not isinstance(job.spec, Unreadable) and runs_once(job.spec)


def runs_once(spec: JobSpec) -> bool:
    """Return whether neither a schedule nor an upstream job can start the job."""
    return spec.schedule is None and not spec.after


def write_spec(spec: JobSpec, *, masked: bool = True) -> dict[str, Any]:
    """Write the definition of one version, with credentials masked; for an unreadable version, the error.

    ``masked=False`` is only for comparing two versions, never for a response.
    """
    if isinstance(spec, Unreadable):
        return {"tasks": [], "error": spec.error}
    write_target = _write_masked_target if masked else _write_target
    fields: dict[str, Any] = {}
    if spec.description:
        fields["description"] = hide_userinfo(spec.description) if masked else spec.description
    fields |= write_schedule(spec.schedule, follows=bool(spec.after))
    fields["tasks"] = [_write_task(task, write_target) for task in spec.tasks]
    fields |= write_settings(spec.settings)
    if spec.after:
        fields["after"] = [{"job": one.job, "on": one.on.value} for one in spec.after]
    if spec.on_start is not None:
        fields["on_start"] = write_target(spec.on_start)
    if spec.on_complete is not None:
        fields["on_complete"] = write_target(spec.on_complete)
    if spec.alerts:
        fields["alerts"] = [mask_fields_by_name(alert) for alert in spec.alerts] if masked else list(spec.alerts)
    if spec.owner is not None:
        fields["owner"] = spec.owner
    if spec.tags:
        fields["tags"] = spec.tags
    if spec.payload is not None:
        fields["payload"] = hide_url_credentials(spec.payload) if masked else spec.payload
    return fields


# --- reading


def _read_name(reader: ObjectReader, field: str, default: str | None = None) -> str:
    value = reader.text(field, max_bytes=1024)
    if value is None:
        if default is None and not reader.present(field):
            reader.fault(field, "is required")
        return default or ""
    fault = find_name_fault(value)
    if fault is not None:
        reader.fault(field, f'"{value[:64]}" {fault}')
    return value


def _read_tasks(reader: ObjectReader, checks: Mapping[str, Check]) -> tuple[Task, ...]:
    function = reader.text("job_type", max_bytes=200)
    target_fields = find_target_fields(reader, checks)
    name, entries = reader.items("tasks", max_items=MAX_TASKS)
    given = [*(["job_type"] if function else []), *target_fields, *(["tasks"] if entries else [])]
    for duplicate in given[1:]:
        reader.fault(duplicate, f'conflicts with "{given[0]}"; put several tasks into "tasks"')
    if not given and not any(problem.pointer.startswith(_TARGET_POINTERS) for problem in reader.problems):
        kinds = ", ".join(sorted(checks))
        reader.fault("tasks", f"is required; give a list of tasks, or a single target: {kinds}")
    tasks: list[Task | None] = []
    if function is not None:
        options = {"name": function}
        check_target(reader, "job_type", PYTHON, options, checks)
        tasks.append(Task(name=DEFAULT_TASK_NAME, target=Target(kind=PYTHON, options=options)))
    for field in target_fields:
        target = read_target(reader, field, checks)
        tasks.append(None if target is None else Task(name=DEFAULT_TASK_NAME, target=target))
    if entries:
        tasks += [
            _read_task(reader.to_object((name, index), value), checks, len(entries))
            for index, value in enumerate(entries)
        ]
        _check_names(reader, name, entries)
    return tuple(task for task in tasks if task is not None)


def _read_task(reader: ObjectReader | None, checks: Mapping[str, Check], count: int) -> Task | None:
    if reader is None:
        return None
    name = _read_name(reader, "name", default=DEFAULT_TASK_NAME if count == 1 else None)
    target_fields = find_target_fields(reader, checks)
    if len(target_fields) != 1:
        kinds = ", ".join(sorted(checks))
        message = (
            f"has {' and '.join(target_fields)}; a task has one target"
            if target_fields
            else f"has no target; give one of {kinds}"
        )
        reader.problems.append(Problem(reader.pointer, message))
    targets = [read_target(reader, field, checks) for field in target_fields]
    needs = reader.texts("needs", max_items=MAX_TASKS)
    settings = read_overrides(reader)
    reader.finish()
    target = targets[0] if targets else None
    return None if target is None else Task(name=name, target=target, needs=needs, settings=settings)


def _check_names(reader: ObjectReader, field: str, entries: list[Any]) -> None:
    """Record tasks with the same name, and needs that name no task."""
    if len(entries) == 1 and not (isinstance(entries[0], dict) and entries[0].get("needs")):
        return
    tasks = [(index, value) for index, value in enumerate(entries) if isinstance(value, dict)]
    names: set[str] = {DEFAULT_TASK_NAME} if len(entries) == 1 and tasks[0][1].get("name") is None else set()
    for index, task in tasks:
        name = task.get("name")
        if isinstance(name, str) and name in names:
            reader.fault(
                (field, index, "name"), f'"{name[:64]}" is the name of another task; give each task its own name'
            )
        elif isinstance(name, str):
            names.add(name)
    for index, task in tasks:
        needs = task.get("needs")
        for need_index, need in enumerate(needs if isinstance(needs, list) else [needs]):
            if isinstance(need, str) and need not in names:
                path = ("needs", need_index) if isinstance(needs, list) else ("needs",)
                reader.fault((field, index, *path), f'is "{need[:64]}", but the job has no task of this name')


def _read_hook(reader: ObjectReader, field: str, checks: Mapping[str, Check]) -> Target | None:
    inner = reader.object(field)
    if inner is None:
        return None
    target_fields = find_target_fields(inner, checks)
    if len(target_fields) != 1:
        reader.fault(field, f"must have exactly one target: {', '.join(sorted(checks))}")
    targets = [read_target(inner, field_name, checks) for field_name in target_fields]
    inner.finish()
    return targets[0] if targets else None


def _read_after(reader: ObjectReader, name: str) -> tuple[UpstreamJob, ...]:
    field, entries = reader.items("after", max_items=MAX_FOLLOWED)
    upstream: list[UpstreamJob] = []
    for index, value in enumerate(entries):
        if isinstance(value, str):
            upstream.append(UpstreamJob(job=value))
            continue
        inner = reader.to_object((field, index), value)
        if inner is None:
            continue
        job = inner.text("job", max_bytes=200)
        on = inner.one_of(UpstreamCondition, "on") or UpstreamCondition.SUCCESS
        inner.finish()
        if job is None:
            inner.fault("job", "is required")
        else:
            upstream.append(UpstreamJob(job=job, on=on))
    if any(upstream_job.job == name for upstream_job in upstream):
        reader.fault(field, "names the job itself; a job cannot follow itself")
    if len({upstream_job.job for upstream_job in upstream}) < len(upstream):
        reader.fault(field, "names a job twice; name each job once")
    return tuple(upstream)


def _refuse_alerts(reader: ObjectReader) -> None:
    """Reject alerts until they are supported. Jobs stored with alerts keep them and run."""
    field, entries = reader.take("alerts")
    if entries is not None and entries != []:
        reader.fault(field, NO_ALERTS)


def _read_payload(reader: ObjectReader) -> Any:
    _, payload = reader.take("payload")
    if payload is not None and len(msgspec.json.encode(payload)) > MAX_PAYLOAD:
        reader.fault("payload", f"is larger than {MAX_PAYLOAD // 1024} KiB")
    return payload


def _with_mode(reader: ObjectReader, settings: Settings, tasks: tuple[Task, ...]) -> Settings:
    """Set the mode to graph if a task has needs."""
    if not any(task.needs for task in tasks) or settings.mode is Mode.GRAPH:
        return settings
    if settings.mode is not None:
        reader.fault("mode", f'is {settings.mode}, but tasks have "needs"; use "graph", or leave out "needs"')
    return replace(settings, mode=Mode.GRAPH)


def _check_spec(spec: JobSpec, problems: list[Problem]) -> bytes:
    """Record problems of the whole job. Returns the encoded spec; empty if there were problems before."""
    encoded = b"" if problems else msgspec.json.encode(spec)
    if len(encoded) > MAX_SPEC:
        message = f"the job has {len(encoded)} bytes, allowed {MAX_SPEC}; store large data elsewhere"
        problems.append(Problem("", message))
    if len(spec.tasks) == 1 and not spec.tasks[0].needs:
        return encoded
    if any(problem.pointer.startswith(_TARGET_POINTERS) for problem in problems):
        return encoded  # the tasks are incomplete, so checking their needs would mislead
    try:
        build_layout(spec)
    except Invalid as error:
        problems.append(Problem("/tasks", str(error)))
    return encoded


def _find_target_pointers(data: dict[str, Any], spec: JobSpec, checks: Mapping[str, Check]) -> dict[str, str]:
    """Return the pointers of the targets in the request, by task or hook."""
    target_fields = list_target_fields(checks)
    tasks = data.get("tasks")
    written = [(f"/tasks/{index}", task) for index, task in enumerate(tasks)] if tasks else [("", data)]
    located = [(task.name, pointer, fields) for task, (pointer, fields) in zip(spec.tasks, written, strict=True)]
    located += [(f"/{hook}", f"/{hook}", data[hook]) for hook in ("on_start", "on_complete") if data.get(hook)]
    return {
        name: extend_pointer(pointer, next((field for field in target_fields if field in fields), ""))
        for name, pointer, fields in located
    }


# --- writing


def _write_task(task: Task, write_target: Callable[[Target], dict[str, Any]]) -> dict[str, Any]:
    fields: dict[str, Any] = {"name": task.name, **write_target(task.target)}
    if task.needs:
        fields["needs"] = list(task.needs)
    return fields if task.settings is NOTHING_SET else fields | write_settings(task.settings)


def _write_masked_target(target: Target) -> dict[str, Any]:
    return {target.kind: mask_options(target.options)}


def _write_target(target: Target) -> dict[str, Any]:
    return {target.kind: target.options}
