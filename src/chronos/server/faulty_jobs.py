"""Finds stored jobs that need a person: unreadable ones, and those with fields that are not supported yet.

An earlier release accepted the unsupported fields, and the jobs still run.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from chronos.core.job import Job, JobSpec, Target, Unreadable
from chronos.errors import Invalid
from chronos.runners.templates import has_secret_placeholder
from chronos.store.contract import JobFilter, Store

_PAGE = 1_000
_TEMPLATES = ("argv", "env", "stdin")  # fields of a command; all fields of an ``http`` target are templates


@dataclass(slots=True)
class JobNames:
    """The number of jobs with one fault, and the first names."""

    max_names: int
    total: int = 0
    names: list[str] = field(default_factory=list)

    def add(self, job: Job) -> None:
        self.total += 1
        if len(self.names) < self.max_names:
            self.names.append(f"{job.namespace}/{job.name}")


class FaultyJobs(NamedTuple):
    """Stored jobs by their fault."""

    unreadable: JobNames
    with_alerts: JobNames
    with_secrets: JobNames  # in a template


async def find_faulty_jobs(store: Store, *, max_names: int) -> FaultyJobs:
    """Find the faulty ones among all jobs; at most ``max_names`` names for each fault."""
    faulty = FaultyJobs(JobNames(max_names), JobNames(max_names), JobNames(max_names))
    cursor: bytes | None = None
    while True:
        page = await store.list_jobs(JobFilter(), limit=_PAGE, cursor=cursor)
        for job in page.items:
            if isinstance(job.spec, Unreadable):
                faulty.unreadable.add(job)
                continue
            if job.spec.alerts:
                faulty.with_alerts.add(job)
            if _uses_secrets(job.spec):
                faulty.with_secrets.add(job)
        cursor = page.cursor
        if cursor is None:
            return faulty


def _uses_secrets(spec: JobSpec) -> bool:
    targets = [*(task.target for task in spec.tasks), spec.on_start, spec.on_complete]
    return any(_target_uses_secrets(target) for target in targets if target is not None)


def _target_uses_secrets(target: Target) -> bool:
    """Whether a template of a target refers to a secret."""
    options = target.options
    if target.kind == "command":
        options = {name: options[name] for name in _TEMPLATES if name in options}
    elif target.kind != "http":
        return False
    return any(_names_secret(text) for text in _texts(options))


def _names_secret(text: str) -> bool:
    try:
        return has_secret_placeholder(text)
    except Invalid:  # not a template
        return False


def _texts(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case Mapping():
            for item in value.values():
                yield from _texts(item)
        case list() | tuple():
            for item in value:
                yield from _texts(item)
        case _:
            pass
