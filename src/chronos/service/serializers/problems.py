"""What is wrong with a job that somebody wrote: every problem at once, each with a pointer to the field."""

from collections.abc import Iterable
from dataclasses import dataclass

from chronos.errors import Invalid

MAX_PROBLEMS = 100  # that one answer lists
_MAX_TEXT = 2_000  # characters of a pointer or a message


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong; ``pointer`` is a JSON pointer (RFC 6901) into what was written."""

    pointer: str
    message: str

    def __str__(self) -> str:
        return f"{self.pointer}: {self.message}" if self.pointer else self.message


class InvalidJob(Invalid):
    """A job that cannot be saved as it is written. ``problems`` has what is wrong with it, ``more`` counts the rest."""

    def __init__(self, problems: Iterable[Problem], *, name: str | None = None, more: int = 0) -> None:
        listed = list(problems)
        self.problems = [_shorten(problem) for problem in listed[:MAX_PROBLEMS]]
        self.more = len(listed) - len(self.problems) + more
        self.name = name
        super().__init__(self._message())

    @property
    def rest(self) -> str:
        """What to say of the problems that are not listed; empty: there are none."""
        return f"and {self.more:,} more" if self.more else ""

    def _message(self) -> str:
        subject = "the job" if self.name is None else f'the job "{self.name}"'
        if len(self.problems) == 1 and not self.more:
            return f"{subject} cannot be saved: {self.problems[0]}"
        listed = "".join(f"\n  {problem}" for problem in self.problems) + (f"\n  {self.rest}" if self.more else "")
        return f"{subject} cannot be saved, {len(self.problems) + self.more} things are wrong with it:{listed}"

    def __reduce__(self) -> tuple[type["InvalidJob"], tuple[list[Problem]], dict[str, str | int | None]]:
        return InvalidJob, (self.problems,), {"name": self.name, "more": self.more}


def _shorten(problem: Problem) -> Problem:
    """A problem that quotes little of what was written."""
    if len(problem.pointer) <= _MAX_TEXT and len(problem.message) <= _MAX_TEXT:
        return problem
    return Problem(_cut(problem.pointer), _cut(problem.message))


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_TEXT else text[:_MAX_TEXT] + "…"
