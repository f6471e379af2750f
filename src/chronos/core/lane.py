"""Lanes: what a worker must be able to do to take an execution, as one text that the store interns.

An execution stands in the lane of its job: a queue, labels that the worker must carry, Python functions that it must
have. Equal demands are equal texts, so a claim names a few lanes and looks at nothing else.
"""

from collections.abc import Collection, Mapping
from functools import lru_cache

import msgspec
from msgspec import Struct

from chronos.core.config import EffectiveSettings
from chronos.core.job import JobSpec

PYTHON = "python"  # the kind of target that needs a function


class Lane(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is asked of a worker."""

    queue: str = "default"
    labels: tuple[tuple[str, str], ...] = ()
    functions: tuple[str, ...] = ()
    fallback_us: int | None = None  # what has been ready for so long may go to a worker without the labels

    @property
    def text(self) -> str:
        """Equal for equal demands; a plain queue is just its name."""
        if not self.labels and not self.functions:
            return self.queue
        return msgspec.json.encode(self).decode()

    def suits_after_fallback(self, *, queues: Collection[str] | None, functions: frozenset[str]) -> bool:
        """Whether such a worker can take it once it has waited for its ``fallback_us``, whatever the labels."""
        return self.fallback_us is not None and self.suits(queues=queues, labels=dict(self.labels), functions=functions)

    def suits(self, *, queues: Collection[str] | None, labels: Mapping[str, str], functions: frozenset[str]) -> bool:
        """Whether a worker of these queues (None: any) with these labels and functions can take it."""
        if queues is not None and self.queue not in queues:
            return False
        if self.labels and not all(labels.get(key) == value for key, value in self.labels):
            return False
        return functions.issuperset(self.functions)


@lru_cache(maxsize=10_000)
def read_lane(text: str) -> Lane:
    """The lane of a text."""
    return msgspec.json.decode(text, type=Lane) if text.startswith("{") else Lane(queue=text)


def build_lane(spec: JobSpec, effective: EffectiveSettings) -> Lane:
    """The lane of a job: all that any of its tasks, or the hook before them, needs."""
    functions = {str(task.target.options["name"]) for task in spec.tasks if task.target.kind == PYTHON}
    if spec.on_start is not None and spec.on_start.kind == PYTHON:
        functions.add(str(spec.on_start.options["name"]))
    if not functions and not effective.labels:
        return read_lane(effective.queue)
    return Lane(
        queue=effective.queue,
        labels=tuple(sorted(effective.labels.items())),
        functions=tuple(sorted(functions)),
        fallback_us=effective.fallback_us if effective.labels else None,
    )
