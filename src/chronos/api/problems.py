"""One table from errors to HTTP: RFC 9457 problems with a stable code, pointers to fields, and the request's id."""

import math
from dataclasses import dataclass
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
    StoreUnavailable,
    Unavailable,
)
from chronos.service.serializers import InvalidJob

PROBLEM = "application/problem+json"
_CHALLENGE = 'Basic realm="chronos", charset="UTF-8", Bearer'


@dataclass(frozen=True, slots=True)
class ProblemKind:
    """How one branch of the error tree is answered."""

    error: type[Exception]
    status: int
    code: str
    title: str
    retry_after_s: int | None = None


#: The first that fits counts, so that twigs stand before their branches.
KINDS = (
    ProblemKind(InvalidBody, 422, "invalid", "It makes no sense"),
    ProblemKind(InvalidJob, 422, "invalid_job", "The job cannot be saved as it is written"),
    ProblemKind(InvalidSchedule, 422, "invalid_schedule", "The schedule cannot be understood"),
    ProblemKind(Malformed, 400, "malformed", "The request cannot be read"),
    ProblemKind(TooLarge, 413, "too_large", "The request is too large"),
    ProblemKind(WrongType, 415, "unsupported_media_type", "The body is of a type that is not understood"),
    ProblemKind(Unauthenticated, 401, "unauthenticated", "Say who you are"),
    ProblemKind(Forbidden, 403, "forbidden", "You may not do this"),
    ProblemKind(NoRoute, 404, "no_such_path", "Nothing answers here"),
    ProblemKind(NotFound, 404, "not_found", "There is no such thing"),
    ProblemKind(WrongMethod, 405, "method_not_allowed", "This path does not take this method"),
    ProblemKind(SlowRequest, 408, "request_too_slow", "The request did not arrive in time"),
    ProblemKind(StaleVersion, 412, "stale", "It changed since you read it"),
    ProblemKind(Conflict, 409, "conflict", "It is not as you believe"),
    ProblemKind(LockedOut, 429, "locked_out", "Too many wrong passwords"),
    ProblemKind(TooManyRequests, 429, "rate_limited", "Too many requests"),
    ProblemKind(QueueFull, 429, "queue_full", "Too much is waiting already", 1),
    ProblemKind(RequestTimedOut, 503, "timeout", "The answer took too long", 1),
    ProblemKind(StoreBusy, 429, "store_busy", "Too many changes wait to be written", 1),
    ProblemKind(StoreUnavailable, 503, "store_unavailable", "The store cannot be reached", 1),
    ProblemKind(Unavailable, 503, "unavailable", "Not now", 1),
    ProblemKind(StoreBroken, 503, "store_broken", "The store must not be used as it is"),
    ProblemKind(Invalid, 422, "invalid", "It makes no sense"),
)
INTERNAL = ProblemKind(Exception, 500, "internal", "Something went wrong here")


def kind_of(error: Exception) -> ProblemKind:
    """How an error is answered."""
    return next((kind for kind in KINDS if isinstance(error, kind.error)), INTERNAL)


def write_problem(error: Exception, request_id: str) -> dict[str, Any]:
    """The problem of an error. What was not raised on purpose keeps its words to itself: they are in the log."""
    kind = kind_of(error)
    detail = str(error) if isinstance(error, ChronosError) else "It was logged, with the id of this request."
    problem: dict[str, Any] = {
        "type": f"urn:chronos:problem:{kind.code}",
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


def problem_response(error: Exception, request_id: str) -> web.Response:
    """The answer to a request that failed."""
    kind = kind_of(error)
    response = web.Response(status=kind.status, body=write_json(write_problem(error, request_id)), content_type=PROBLEM)
    after_s = error.retry_after_s if isinstance(error, TooManyRequests) else kind.retry_after_s
    if after_s is not None:
        response.headers["Retry-After"] = str(max(1, math.ceil(after_s)))
    if kind.status == 401:
        response.headers["WWW-Authenticate"] = _CHALLENGE
    if isinstance(error, CompressedBody):
        response.headers["Accept-Encoding"] = "identity"
    return response
