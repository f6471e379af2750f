"""``job.update(…)``: turns keywords into a change of a stored job.

A keyword replaces what the job has, and None removes it. The change is applied to the JSON of the job, as the service
writes it, so a job of a store and a job of a server change alike.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Literal, TypedDict

from chronos.errors import Invalid
from chronos.sdk.declarations import read_after
from chronos.sdk.job_options import (
    SCHEDULE_KINDS,
    SCHEDULE_SETTINGS,
    CommandOptions,
    Duration,
    HttpOptions,
    Instant,
    Shape,
    build_job_shape,
    check_keywords,
)
from chronos.service.serializers.job import READ_ONLY_FIELDS
from chronos.service.serializers.schedule import MANUAL

#: Keywords whose field in the JSON of a job has another name.
_FIELDS = {"timeout": "task_timeout"}
_HTTP_OPTIONS = frozenset(("url", *HttpOptions.__annotations__))
_COMMAND_OPTIONS = frozenset(("argv", *CommandOptions.__annotations__))
_TARGET_OPTIONS = _HTTP_OPTIONS | _COMMAND_OPTIONS


class UpdateOptions(TypedDict, total=False):
    """The keywords of ``JobHandle.update``: those of every job, a webhook and a command. None removes a setting."""

    schedule: str | Sequence[str] | Mapping[str, Any] | None
    cron: str | Sequence[str] | None
    every: Duration | None
    at: Instant | None
    in_: Duration | None
    iso8601: str | Sequence[str] | None
    words: str | Sequence[str] | None
    timezone: str | None
    dst: Literal["robust", "literal"] | None
    start: Instant | None
    end: Instant | Duration | None
    jitter: Duration | None
    exclude: Sequence[str | date] | None
    retries: int | None  # None: no limit
    retry: Mapping[str, Any] | None
    timeout: Duration | None
    on_failure: Literal["fail_fast", "continue", "retry"] | None
    delivery: Literal["at_least_once", "at_most_once"] | None
    execution_timeout: Duration | None
    overlap: Literal["skip", "allow", "queue", "replace"] | None
    queue_max: int | None
    recovery: str | Mapping[str, Any] | None
    priority: int | None
    concurrency: int | Mapping[str, Any] | None
    update: str | Mapping[str, Any] | None
    retention: Mapping[str, Any] | None
    queue: str | None
    placement: Mapping[str, Any] | None
    after: Any
    on_start: Mapping[str, Any] | None
    on_complete: Mapping[str, Any] | None
    alerts: Sequence[Mapping[str, Any]] | None
    tags: Mapping[str, str] | Sequence[str] | None
    description: str | None
    enabled: bool
    payload: Any
    url: str
    method: str | None
    headers: Mapping[str, str] | None
    query: Mapping[str, str] | None
    json: Any
    body: str | None
    auth: Mapping[str, Any] | None
    success_codes: Sequence[int | str] | None
    retry_codes: Sequence[int | str] | None
    redirects: bool | int | None
    argv: Sequence[str]
    env: Mapping[str, str] | None
    cwd: str | None
    user: str | None
    stdin: str | bool | None
    limits: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobUpdate:
    """A change of a job: fields to replace, fields to remove, and options of its target."""

    fields: Shape
    removed: frozenset[str]
    target: Shape
    keeps_retry: bool  # ``retries`` alone leaves the rest of the retry policy as it is
    timezone: str | None  # for a schedule without one

    def apply(self, job: Mapping[str, Any]) -> Shape:
        """Return the changed definition of a job. Raises ``Invalid``."""
        changed = {name: value for name, value in job.items() if name not in READ_ONLY_FIELDS | self.removed}
        fields = dict(self.fields)
        if self.keeps_retry:
            fields["retry"] = {**(changed.get("retry") or {}), **fields["retry"]}
        schedule = fields.get("schedule")
        if schedule is not None:
            within = {*schedule} if isinstance(schedule, Mapping) else set()
            dropped = {*SCHEDULE_SETTINGS} if schedule == MANUAL else within
            if "in" in within:  # the delay counts from now
                dropped.add("start")
            changed = {name: value for name, value in changed.items() if name not in dropped}
            has_timezone = "timezone" in {*changed, *fields, *within}
            if self.timezone is not None and not has_timezone and schedule != MANUAL:
                fields["timezone"] = self.timezone
        changed |= fields
        if self.target:
            changed["tasks"] = [self._apply_to_target(job.get("tasks", ()))]
        return changed

    def _apply_to_target(self, tasks: Sequence[Mapping[str, Any]]) -> Shape:
        first = next(iter(self.target))
        if len(tasks) != 1:
            raise Invalid(
                f"{first} changes one task, and the job has {len(tasks)}; change the tasks where they are declared"
            )
        [task] = tasks
        for kind, known in (("http", _HTTP_OPTIONS), ("command", _COMMAND_OPTIONS)):
            if kind in task:
                if unknown := [name for name in self.target if name not in known]:
                    raise Invalid(
                        f'"{unknown[0]}" does not apply to a {kind} target; it takes {", ".join(sorted(known))}'
                    )
                options = {**task[kind], **self.target}
                for old, new in (("body", "json"), ("json", "body")):
                    if self.target.get(new) is not None:
                        options.pop(old, None)
                return {**task, kind: {name: value for name, value in options.items() if value is not None}}
        raise Invalid(f'"{first}" applies to webhooks and commands only, and the job is neither')


def build_update(options: Mapping[str, Any], *, to_job_name: Callable[[Any], str], timezone: str | None) -> JobUpdate:
    """Read the keywords of an update. Raises ``Invalid``."""
    check_keywords(options, UpdateOptions)
    if not options:
        raise Invalid("nothing to change is given; add keywords, such as every=…")
    for hook in ("on_start", "on_complete"):
        if options.get(hook) is not None and not isinstance(options[hook], Mapping):
            raise Invalid(
                f"{hook} must be a target here, like {{'http': {{'url': …}}}}; declare a function with the job"
            )
    settings = {name: value for name, value in options.items() if name not in _TARGET_OPTIONS}
    given = {name: value for name, value in settings.items() if value is not None or name == "retries"}
    fields = build_job_shape(given, timezone=None, is_change=True)
    fields |= read_after(given.get("after"), to_job_name)
    fields |= {hook: dict(given[hook]) for hook in ("on_start", "on_complete") if hook in given}
    removed = {_FIELDS.get(name, name) for name in settings if name not in given}
    if removed & {*SCHEDULE_KINDS} and "schedule" not in fields:
        fields["schedule"] = MANUAL
    return JobUpdate(
        fields=fields,
        removed=frozenset(removed),
        target={
            name: list(value) if name == "argv" else value for name, value in options.items() if name in _TARGET_OPTIONS
        },
        keeps_retry="retries" in given and "retry" not in settings,
        timezone=timezone,
    )
