"""Read-only fields (id, version, state, created_at, …) in a request body.

Clients may send back what GET returned; values that merely went stale are ignored. A value that contradicts the server
is rejected, so that sending ``{"state": "paused"}`` never looks like it paused the job. For a new job, which may be a
copy of another one, only the state is checked.
"""

from collections.abc import Mapping
from typing import Any

from chronos.api.request import read_instant_us
from chronos.core.job import Job, JobState
from chronos.service.serializers import Draft, InvalidJob, Problem, id_text, read_id, runs_once, write_job

_CHECKED = frozenset(("id", "state", "note", "created_at", "paused_at", "next_run_at"))
_PERMANENT = ("id", "version", "state", "created_at")
_STATE_HINT = "read-only; use pause, resume, enable or disable"


def check_readonly_fields(sent: Any, draft: Draft, existing: Job | None, now_us: int) -> None:
    """Raise ``InvalidJob`` for read-only fields that contradict the job. ``read_sent_version`` handles the version."""
    if existing is None:
        check_state(sent, draft, None)
        return
    if not isinstance(sent, Mapping) or _CHECKED.isdisjoint(sent):
        return
    fields = {name: value for name, value in sent.items() if name in _CHECKED and value is not None}
    problems = [
        *_check_state(fields, draft, existing),
        *_check_id(fields, existing),
        *_check_others(fields, existing, now_us),
    ]
    if problems:
        raise InvalidJob(problems, name=draft.name)


def check_state(sent: Any, draft: Draft, existing: Job | None) -> None:
    """Raise ``InvalidJob`` if the sent state contradicts the job."""
    if problems := _check_state(sent if isinstance(sent, Mapping) else {}, draft, existing):
        raise InvalidJob(problems, name=draft.name)


def has_unusual_state(sent: Any, draft: Draft) -> bool:
    """Return whether the sent state differs from the one that a new job would have."""
    return isinstance(sent, Mapping) and sent.get("state") not in (None, _state_name(_state_if_new(draft)))


def check_kept(changes: Mapping[str, Any], name: str) -> None:
    """Raise ``InvalidJob`` for a patch that removes a field which every job has."""
    removed = [field for field in _PERMANENT if field in changes and changes[field] is None]
    if removed:
        raise InvalidJob([Problem(f"/{field}", "is read-only and cannot be removed") for field in removed], name=name)


def read_sent_version(sent: Any) -> int | None:
    """Return the version that a change is based on, or None if it has none."""
    version = sent.get("version") if isinstance(sent, Mapping) else None
    if version is not None and type(version) is not int:
        raise InvalidJob([Problem("/version", "must be an integer; send the version of the response, or leave it out")])
    return version


def _check_state(fields: Mapping[str, Any], draft: Draft, existing: Job | None) -> list[Problem]:
    state = fields.get("state")
    current_state = _state_if_new(draft) if existing is None else existing.state
    next_state = (
        draft.state if draft.state is not None and JobState.DISABLED in (draft.state, current_state) else current_state
    )
    if state is None or state in (_state_name(current_state), _state_name(next_state)):
        return []
    verb = "is" if existing is not None else "would be"
    return [
        Problem(
            "/state",
            f'is {_format_value(state)}, but the job {verb} "{_state_name(current_state)}"; it is {_STATE_HINT}',
        )
    ]


def _state_if_new(draft: Draft) -> JobState:
    """Return the state of a new job right after it is saved. One that runs once is then done."""
    if draft.state is JobState.DISABLED:
        return JobState.DISABLED
    return (
        JobState.DONE
        if (draft.runs_on_creation or draft.runs_on_every_change) and runs_once(draft.spec)
        else JobState.ACTIVE
    )


def _check_id(fields: Mapping[str, Any], existing: Job) -> list[Problem]:
    sent_id = fields.get("id")
    if sent_id is None or (isinstance(sent_id, str) and read_id(sent_id) == existing.id):
        return []
    return [
        Problem("/id", f'is {_format_value(sent_id)}, but the id of the job is "{id_text(existing.id)}"; leave it out')
    ]


def _check_others(fields: Mapping[str, Any], existing: Job, now_us: int) -> list[Problem]:
    """Check the other fields that only the server sets."""
    problems: list[Problem] = []
    known = write_job(existing, now_us=now_us)
    note = fields.get("note")
    if note not in (None, "", known.get("note")):
        problems.append(Problem("/note", f"differs from the stored note; it is {_STATE_HINT} with a reason"))
    for name in ("created_at", "paused_at", "next_run_at"):
        if name not in fields or fields[name] == known.get(name):
            continue
        sent_us = read_instant_us(fields[name]) if isinstance(fields[name], str) else None
        if sent_us is not None and name == "next_run_at" and sent_us <= now_us:
            continue  # this run has started since
        actual = known.get(name) or "not set"
        problems.append(
            Problem(f"/{name}", f"is {_format_value(fields[name])}, but it is {actual}; it is read-only, leave it out")
        )
    return problems


def _state_name(state: JobState) -> str:
    return state.name.lower()


def _format_value(value: Any) -> str:
    return f'"{value[:64]}"' if isinstance(value, str) else f"not text ({type(value).__name__})"
