"""Problems of a job that a client sent. All are reported at once, each with a pointer to its field."""

from collections.abc import Iterable
from dataclasses import dataclass

from chronos.errors import Invalid

MAX_PROBLEMS = 100  # per response
_MAX_TEXT = 2_000  # characters of a pointer or a message


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault; ``pointer`` is a JSON pointer (RFC 6901) into the document that was sent."""

    pointer: str
    message: str

    def __str__(self) -> str:
        return f"{self.pointer}: {self.message}" if self.pointer else self.message


class InvalidJob(Invalid):
    """A job definition that cannot be saved. ``problems`` lists its faults; ``more`` counts the unlisted ones."""

    def __init__(self, problems: Iterable[Problem], *, name: str | None = None, more: int = 0) -> None:
        listed = list(problems)
        self.problems = [_shorten(problem) for problem in listed[:MAX_PROBLEMS]]
        self.more = len(listed) - len(self.problems) + more
        self.name = name
        super().__init__(self._message())

    @property
    def rest(self) -> str:
        """A phrase about the unlisted problems; empty if all are listed."""
        return f"and {self.more:,} more" if self.more else ""

    def _message(self) -> str:
        subject = "invalid job" if self.name is None else f'invalid job "{self.name}"'
        if len(self.problems) == 1 and not self.more:
            return f"{subject}: {self.problems[0]}"
        listed = "".join(f"\n  {problem}" for problem in self.problems) + (f"\n  {self.rest}" if self.more else "")
        return f"{subject}, {len(self.problems) + self.more} problems:{listed}"

    def __reduce__(self) -> tuple[type["InvalidJob"], tuple[list[Problem]], dict[str, str | int | None]]:
        return InvalidJob, (self.problems,), {"name": self.name, "more": self.more}


def _shorten(problem: Problem) -> Problem:
    """Cut the pointer and the message, which may quote much of the input."""
    if len(problem.pointer) <= _MAX_TEXT and len(problem.message) <= _MAX_TEXT:
        return problem
    return Problem(_cut(problem.pointer), _cut(problem.message))


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_TEXT else text[:_MAX_TEXT] + "…"
