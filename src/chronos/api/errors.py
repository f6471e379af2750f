"""What can be wrong with a request itself, before the service is asked: the branches that only a face on HTTP needs."""

from chronos.errors import ChronosError, Conflict, Invalid, NotFound, Unavailable
from chronos.service.serializers import InvalidJob


class Malformed(Invalid):
    """The request cannot be read: bad JSON, an unknown parameter, a header that makes no sense."""


class TooLarge(Invalid):
    """The body is larger than this server takes."""


class WrongType(Invalid):
    """The body is of a type that is not understood here."""


class CompressedBody(WrongType):
    """The body is compressed."""


class Unauthenticated(ChronosError):
    """Nobody, or nobody known."""


class Forbidden(ChronosError):
    """Known, and not allowed to."""


class StaleVersion(Conflict):
    """``If-Match`` names another version than the one there is."""


class NoRoute(NotFound):
    """Nothing answers at this path."""


class WrongMethod(ChronosError):
    """Something answers at this path, not to this method."""


class SlowRequest(ChronosError):
    """The client did not send its request in time."""


class TooManyRequests(Unavailable):
    """The client asks for more than its share; ``retry_after_s`` says when to come back."""

    def __init__(self, message: str, retry_after_s: float) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class LockedOut(TooManyRequests):
    """Too many wrong passwords."""


class RequestTimedOut(Unavailable):
    """The answer took longer than a request may; whether a change was made is not known."""


class InvalidBody(InvalidJob):
    """A body that is JSON and makes no sense; like a job, it has several problems at once."""

    def _message(self) -> str:
        said = [str(problem) for problem in self.problems]
        return "the request makes no sense: " + "; ".join([*said, self.rest] if self.more else said)
