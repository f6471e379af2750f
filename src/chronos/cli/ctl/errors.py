"""Failures of commands: a message for people, and an exit code for scripts."""

import re
from typing import Any

import click

EXIT_NOT_FOUND = 3
EXIT_CONFLICT = 4
EXIT_UNREACHABLE = 5
EXIT_RUN_FAILED = 6

_CHANGED = re.compile(r"(\S+) changed since you read it \(you have v(\d+), it is v(\d+)")


class CommandFailure(click.ClickException):
    """A command was refused or failed; the message says why."""


class Unreachable(CommandFailure):
    """No server can be reached."""

    exit_code = EXIT_UNREACHABLE


class ForeignServer(CommandFailure):
    """The server that answers is not Chronos."""


class UnsuccessfulRun(CommandFailure):
    """The run that the command waited for did not succeed."""

    exit_code = EXIT_RUN_FAILED


class RequestRefused(CommandFailure):
    """The server refused a request. ``problem`` is its reply (RFC 9457)."""

    def __init__(self, status: int, problem: dict[str, Any], hint: str | None = None) -> None:
        self.status = status
        self.problem = problem
        message = format_problem(status, problem)
        super().__init__(message if hint is None else f"{message}\n  {hint}")


class ResourceNotFound(RequestRefused):
    """The server does not have this job, execution or token."""

    exit_code = EXIT_NOT_FOUND


class StateConflict(RequestRefused):
    """The resource changed, exists already, or is in another state."""

    exit_code = EXIT_CONFLICT


class TryLater(RequestRefused):
    """The server is there, but cannot answer now."""

    exit_code = EXIT_UNREACHABLE


_KINDS = {404: ResourceNotFound, 409: StateConflict, 412: StateConflict, 502: TryLater, 503: TryLater, 504: TryLater}


def error_for_reply(status: int, problem: dict[str, Any], hint: str | None = None) -> RequestRefused:
    """Return the failure for an error reply. ``hint`` is a line that says what to do."""
    return _KINDS.get(status, RequestRefused)(status, problem, hint)


def format_problem(status: int, problem: dict[str, Any]) -> str:
    """Format a problem for people: a single error as one sentence, several errors as a list with their fields."""
    field_errors = [error for error in problem.get("errors") or () if isinstance(error, dict) and error.get("message")]
    detail = str(problem.get("detail") or problem.get("title") or f"the server answered {status}")
    if len(field_errors) == 1:
        return _format_field_error(field_errors[0], alone=True)
    if field_errors:
        lines = [_format_field_error(error).replace("\n", "\n  ") for error in field_errors]
        return "the request is invalid:\n" + "\n".join(f"  {line}" for line in lines)
    if status == 412 and (versions := _CHANGED.match(detail)):
        return f"{detail}\n  chronosctl jobs diff {' '.join(versions.groups())}"
    if status == 401:
        return f"{detail}\n  sign in: chronosctl login URL\n  or set CHRONOS_TOKEN"
    if status >= 500 and problem.get("request_id"):
        return f"{detail} (request {problem['request_id']})"
    return detail


def _format_field_error(error: dict[str, Any], *, alone: bool = False) -> str:
    """Format an error as its file (if known), its field and its message. A schedule's message names its own field."""
    pointer, message = str(error.get("pointer") or ""), str(error["message"])
    field = pointer.strip("/").replace("/", ".")
    if alone and pointer.startswith("/schedule"):
        return message
    return ": ".join(part for part in (error.get("file"), field, message) if part)
