"""How commands fail: a message that helps, and an exit code that scripts can tell apart."""

import re
from typing import Any

import click

EXIT_NOT_FOUND = 3
EXIT_CONFLICT = 4
EXIT_UNREACHABLE = 5
EXIT_RUN_FAILED = 6

_CHANGED = re.compile(r"(\S+) changed since you read it \(you have v(\d+), it is v(\d+)")


class CommandFailure(click.ClickException):
    """Refused or failed; the message says why."""


class Unreachable(CommandFailure):
    """No server answers."""

    exit_code = EXIT_UNREACHABLE


class UnsuccessfulRun(CommandFailure):
    """The run that was waited for did not succeed."""

    exit_code = EXIT_RUN_FAILED


class RequestRefused(CommandFailure):
    """The server says no. ``problem`` is what it answered (RFC 9457)."""

    def __init__(self, status: int, problem: dict[str, Any]) -> None:
        self.status = status
        self.problem = problem
        super().__init__(format_problem(status, problem))


class ResourceNotFound(RequestRefused):
    """There is no such thing."""

    exit_code = EXIT_NOT_FOUND


class StateConflict(RequestRefused):
    """It is not as one believed."""

    exit_code = EXIT_CONFLICT


class TryLater(RequestRefused):
    """There is a server, and it cannot answer."""

    exit_code = EXIT_UNREACHABLE


_KINDS = {404: ResourceNotFound, 409: StateConflict, 412: StateConflict, 502: TryLater, 503: TryLater, 504: TryLater}


def error_for_reply(status: int, problem: dict[str, Any]) -> RequestRefused:
    """The failure that an answer means."""
    return _KINDS.get(status, RequestRefused)(status, problem)


def format_problem(status: int, problem: dict[str, Any]) -> str:
    """A problem as a person reads it: one fault as its own sentence, several each with the field it is about."""
    faults = [one for one in problem.get("errors") or () if isinstance(one, dict) and one.get("message")]
    detail = str(problem.get("detail") or problem.get("title") or f"the server answered {status}")
    if len(faults) == 1:
        return _fault(faults[0], alone=True)
    if faults:
        return "it cannot be saved as it is written:\n" + "\n".join(f"  {_fault(one)}" for one in faults)
    if status == 412 and (versions := _CHANGED.match(detail)):
        return f"{detail}\n  chronosctl jobs diff {' '.join(versions.groups())}"
    if status == 401:
        return f"{detail}\n  sign in with: chronosctl login URL\n  or set CHRONOS_TOKEN"
    if status >= 500 and problem.get("request_id"):
        return f"{detail} (request {problem['request_id']})"
    return detail


def _fault(fault: dict[str, Any], *, alone: bool = False) -> str:
    """A fault as one line: its file if known, its field, its message. A schedule's message names the field itself."""
    pointer, message = str(fault.get("pointer") or ""), str(fault["message"])
    field = pointer.strip("/").replace("/", ".")
    if alone and pointer.startswith("/schedule"):
        return message
    return ": ".join(part for part in (fault.get("file"), field, message) if part)
