"""Maps errors to HTTP problems (RFC 9457) with a stable code, pointers to fields, and the request id.

The ``type`` of a problem is the address of its entry on the server's page ``/docs/problems``. That page, and
docs/reference/problems.md, explain every code.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

from aiohttp import web

from chronos.api.errors import (
    CompressedBody,
    Forbidden,
    InvalidBody,
    LockedOut,
    Malformed,
    NoRoute,
    RequestTimedOut,
    SlowRequest,
    StaleVersion,
    TooLarge,
    TooManyRequests,
    Unauthenticated,
    WrongMethod,
    WrongType,
)
from chronos.api.json_body import write_json
from chronos.errors import (
    ChronosError,
    Conflict,
    Invalid,
    InvalidSchedule,
    NotFound,
    QueueFull,
    StoreBroken,
    StoreBusy,
    StoreReadOnly,
    StoreUnavailable,
    Unavailable,
)
from chronos.service.serializers import InvalidJob

PROBLEM = "application/problem+json"
PROBLEMS_PATH = "/docs/problems"
_CHALLENGE = 'Basic realm="chronos", charset="UTF-8", Bearer'


@dataclass(frozen=True, slots=True)
class ProblemKind:
    """The HTTP problem of one class of errors, and its documentation."""

    error: type[Exception]
    status: int
    code: str
    title: str
    cause: str
    fix: str
    retry_after_s: int | None = None


_INVALID = ProblemKind(
    InvalidBody,
    422,
    "invalid",
    "Invalid request",
    "The request can be read, but a field has an invalid value or the request does not fit the current state.",
    "Read `detail`, correct the fields that `errors` lists, and send the request again.",
)
#: The first match counts, so subclasses come before their base classes.
KINDS = (
    _INVALID,
    ProblemKind(
        InvalidJob,
        422,
        "invalid_job",
        "Invalid job",
        "The job definition has unknown fields, missing fields or invalid values.",
        "Correct every field that `errors` lists; its `pointer` names the field and its `message` the allowed values.",
    ),
    ProblemKind(
        InvalidSchedule,
        422,
        "invalid_schedule",
        "Invalid schedule",
        "The schedule cannot be parsed, or it never runs.",
        "Correct the expression as `detail` says. `POST /api/v1/schedule/preview` checks a schedule without saving it.",
    ),
    ProblemKind(
        Malformed,
        400,
        "malformed",
        "Malformed request",
        "The server cannot read the request: invalid JSON, a duplicate key, too many levels, an unknown parameter, "
        "an invalid header or a cursor of another list.",
        "Correct the part of the request that `detail` names.",
    ),
    ProblemKind(
        TooLarge,
        413,
        "too_large",
        "Request too large",
        "The body is larger than `server.request_limit`.",
        "Send fewer jobs per request, store large data elsewhere, or raise `server.request_limit`.",
    ),
    ProblemKind(
        WrongType,
        415,
        "unsupported_media_type",
        "Unsupported media type",
        "The body is not JSON, or it is compressed.",
        "Send uncompressed JSON with the header `Content-Type: application/json`.",
    ),
    ProblemKind(
        Unauthenticated,
        401,
        "unauthenticated",
        "Authentication required",
        "The request has no credentials, or they are wrong, expired or revoked.",
        "Send `Authorization: Basic …` with a username and password, or `Authorization: Bearer …` with an API token.",
    ),
    ProblemKind(
        Forbidden,
        403,
        "forbidden",
        "Permission denied",
        "The user or token lacks a role, or a web page of another site sent the request.",
        "Ask an admin for the role that `detail` names, or use another user or token.",
    ),
    ProblemKind(
        NoRoute,
        404,
        "no_such_path",
        "Unknown path",
        "The API has no such path.",
        "Check the path; `/docs` lists all of them. Behind a proxy, check `server.base_path`.",
    ),
    ProblemKind(
        NotFound,
        404,
        "not_found",
        "Not found",
        "The job, execution, version, token or namespace does not exist, or your role does not let you see it.",
        "Check the name or id and the namespace (`?namespace=`).",
    ),
    ProblemKind(
        WrongMethod,
        405,
        "method_not_allowed",
        "Method not allowed",
        "The path exists, but not with this HTTP method.",
        "Use a method that the `Allow` header lists.",
    ),
    ProblemKind(
        SlowRequest,
        408,
        "request_too_slow",
        "Request too slow",
        "The body did not arrive within the time limit of a request.",
        "Send the request again, in smaller parts if the connection is slow.",
    ),
    ProblemKind(
        StaleVersion,
        412,
        "stale",
        "Changed since you read it",
        "`If-Match` names another version than the current one: someone changed the job after you read it.",
        "Read the job again, apply your change to it, and send it with the new `ETag`.",
    ),
    ProblemKind(
        Conflict,
        409,
        "conflict",
        "Conflict",
        "The request does not fit the current state: the name is taken, the job changed meanwhile, or the execution "
        "has finished.",
        "Read the current state, then decide whether to send a changed request.",
    ),
    ProblemKind(
        StoreReadOnly,
        409,
        "store_read_only",
        "Store in use",
        "The server only serves the API of a SQLite store that a program uses, so it can only read it.",
        "Make the change in that program, or stop it first. Requests that read work.",
    ),
    ProblemKind(
        LockedOut,
        429,
        "locked_out",
        "Too many wrong passwords",
        "Too many wrong passwords or tokens came from this address or for this user.",
        "Wait for the time in `Retry-After`, or let an admin call `POST /api/v1/users/{name}/unlock`.",
    ),
    ProblemKind(
        TooManyRequests,
        429,
        "rate_limited",
        "Too many requests",
        "The client saves jobs or starts runs more often per second than `queue.submit_rate` allows, or has too many "
        "streams or logins open.",
        "Wait for the time in `Retry-After`, then send the request again at a lower rate.",
    ),
    ProblemKind(
        QueueFull,
        429,
        "queue_full",
        "Queue full",
        "More runs are waiting than `queue.max_pending` or the `queue_max` of the job allows.",
        "Wait until some runs have finished, add nodes, or raise the limit.",
        1,
    ),
    ProblemKind(
        RequestTimedOut,
        503,
        "timeout",
        "Response timed out",
        "The request took longer than its time limit. The change may have been made.",
        "Check whether the change was made, or send the request again with the same `Idempotency-Key`.",
        1,
    ),
    ProblemKind(
        StoreBusy,
        429,
        "store_busy",
        "Store busy",
        "Too many changes are waiting to be written. This change was not made.",
        "Wait for the time in `Retry-After`, then send the request again.",
        1,
    ),
    ProblemKind(
        StoreUnavailable,
        503,
        "store_unavailable",
        "Store unavailable",
        "The server cannot reach its store.",
        "Send the request again later. If it persists, check the database and `chronos doctor`.",
        1,
    ),
    ProblemKind(
        Unavailable,
        503,
        "unavailable",
        "Service unavailable",
        "The server is starting, stopping or overloaded.",
        "Wait for the time in `Retry-After`, then send the request again.",
        1,
    ),
    ProblemKind(
        StoreBroken,
        503,
        "store_broken",
        "Store unusable",
        "The store is damaged, or another release wrote it.",
        "Do what `detail` says; retrying does not help.",
    ),
    replace(_INVALID, error=Invalid),
)
INTERNAL = ProblemKind(
    Exception,
    500,
    "internal",
    "Internal error",
    "A bug in Chronos.",
    "Look up the `request_id` in the server's log, and report the traceback.",
)


def kind_of(error: Exception) -> ProblemKind:
    """Return the problem kind of an error."""
    return next((kind for kind in KINDS if isinstance(error, kind.error)), INTERNAL)


def type_of(kind: ProblemKind, base_path: str = "") -> str:
    """Return the ``type`` of a problem: the address of its entry on the page of problems."""
    return f"{base_path}{PROBLEMS_PATH}#{kind.code}"


def write_problem(error: Exception, request_id: str, base_path: str = "") -> dict[str, Any]:
    """Write the problem of an error. The text of an unexpected error is only logged, because it may hold secrets."""
    kind = kind_of(error)
    detail = str(error) if isinstance(error, ChronosError) else "a bug in Chronos; see the log for this request id"
    problem: dict[str, Any] = {
        "type": type_of(kind, base_path),
        "title": kind.title,
        "status": kind.status,
        "code": kind.code,
        "detail": detail,
        "request_id": request_id,
    }
    match error:
        case InvalidJob():
            problem["errors"] = [{"pointer": one.pointer, "message": one.message} for one in error.problems]
            if error.more:
                problem["errors"].append({"pointer": "", "message": error.rest})
        case InvalidSchedule():
            problem["errors"] = [{"pointer": "/schedule", "message": str(error)}]
        case _:
            pass
    return problem


def problem_response(error: Exception, request_id: str, base_path: str = "") -> web.Response:
    """Return the response to a request that failed."""
    kind = kind_of(error)
    body = write_json(write_problem(error, request_id, base_path))
    response = web.Response(status=kind.status, body=body, content_type=PROBLEM)
    after_s = error.retry_after_s if isinstance(error, TooManyRequests) else kind.retry_after_s
    if after_s is not None:
        response.headers["Retry-After"] = str(max(1, math.ceil(after_s)))
    if kind.status == 401:
        response.headers["WWW-Authenticate"] = _CHALLENGE
    if isinstance(error, CompressedBody):
        response.headers["Accept-Encoding"] = "identity"
    return response
