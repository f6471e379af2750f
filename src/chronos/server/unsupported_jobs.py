"""Stored jobs with fields that are not supported yet. An earlier release accepted them, and they still run."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from chronos.core.job import Job, JobSpec, Target, Unreadable
from chronos.errors import Invalid
from chronos.runners.templates import has_secret_placeholder
from chronos.store.contract import JobFilter, Store

_PAGE = 1_000
_TEMPLATES = ("argv", "env", "stdin")  # fields of a command; all fields of an ``http`` target are templates


class UnsupportedField(NamedTuple):
    """The number of jobs with an unsupported field, and the first names."""

    total: int
    names: tuple[str, ...]


async def find_unsupported_jobs(store: Store, *, max_names: int) -> tuple[UnsupportedField, UnsupportedField]:
    """Find the jobs with alerts, and the jobs with a secret in a template; at most ``max_names`` names of each."""
    with_alerts: list[str] = []
    with_secrets: list[str] = []
    alerts = secrets = 0
    cursor: bytes | None = None
    while True:
        page = await store.list_jobs(JobFilter(), limit=_PAGE, cursor=cursor)
        for job in page.items:
            if isinstance(job.spec, Unreadable):
                continue
            if job.spec.alerts:
                alerts += 1
                with_alerts += [_full_name(job)] if len(with_alerts) < max_names else []
            if _uses_secrets(job.spec):
                secrets += 1
                with_secrets += [_full_name(job)] if len(with_secrets) < max_names else []
        cursor = page.cursor
        if cursor is None:
            return UnsupportedField(alerts, tuple(with_alerts)), UnsupportedField(secrets, tuple(with_secrets))


def _full_name(job: Job) -> str:
    return f"{job.namespace}/{job.name}"


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
