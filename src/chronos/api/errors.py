"""Errors of a request itself, raised before the service is called. Only HTTP needs them."""

from chronos.errors import ChronosError, Conflict, Invalid, NotFound, Unavailable
from chronos.service.serializers import InvalidJob


class Malformed(Invalid):
    """The request cannot be read: invalid JSON, an unknown parameter, an invalid header."""


class TooLarge(Invalid):
    """The body is larger than the limit."""


class WrongType(Invalid):
    """The media type of the body is not supported."""


class CompressedBody(WrongType):
    """The body is compressed, which is not supported."""


class Unauthenticated(ChronosError):
    """The credentials are missing or wrong."""


class Forbidden(ChronosError):
    """The principal lacks a permission."""


class StaleVersion(Conflict):
    """``If-Match`` does not name the current version."""


class NoRoute(NotFound):
    """No route has this path."""


class WrongMethod(ChronosError):
    """The path exists, but not with this method."""


class SlowRequest(ChronosError):
    """The client did not send its request in time."""


class TooManyRequests(Unavailable):
    """The client exceeds a limit; it may retry after ``retry_after_s``."""

    def __init__(self, message: str, retry_after_s: float) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class LockedOut(TooManyRequests):
    """Too many wrong passwords or tokens."""


class RequestTimedOut(Unavailable):
    """The request exceeded its time limit. Whether a change was made is unknown."""


class InvalidBody(InvalidJob):
    """A JSON body with invalid fields. Like a job, it can have several problems at once."""

    def _message(self) -> str:
        problems = [str(problem) for problem in self.problems]
        return "invalid request: " + "; ".join([*problems, self.rest] if self.more else problems)
