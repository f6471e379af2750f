"""What is wrong with a job that somebody wrote: every problem at once, each with a pointer to the field."""

from collections.abc import Iterable
from dataclasses import dataclass

from chronos.errors import Invalid


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong; ``pointer`` is a JSON pointer (RFC 6901) into what was written."""

    pointer: str
    message: str

    def __str__(self) -> str:
        return f"{self.pointer}: {self.message}" if self.pointer else self.message


class InvalidJob(Invalid):
    """A job that cannot be saved as it is written. ``problems`` has all that is wrong with it."""

    def __init__(self, problems: Iterable[Problem], *, name: str | None = None) -> None:
        self.problems = list(problems)
        self.name = name
        super().__init__(self._message())

    def _message(self) -> str:
        subject = "the job" if self.name is None else f'the job "{self.name}"'
        if len(self.problems) == 1:
            return f"{subject} cannot be saved: {self.problems[0]}"
        listed = "".join(f"\n  {problem}" for problem in self.problems)
        return f"{subject} cannot be saved, {len(self.problems)} things are wrong with it:{listed}"

    def __reduce__(self) -> tuple[type["InvalidJob"], tuple[list[Problem]], dict[str, str | None]]:
        return InvalidJob, (self.problems,), {"name": self.name}
