"""Lanes: what a node must offer to run an execution, as one text that the store interns.

The lane of a job is its queue, the labels that a node must have, and the Python functions that it must have. Equal
requirements are equal texts, so a claim only lists the lanes that a node can serve.
"""

from collections.abc import Collection, Mapping
from functools import lru_cache

import msgspec
from msgspec import Struct

from chronos.core.config import EffectiveSettings
from chronos.core.job import JobSpec

DEFAULT_QUEUE = "default"
PYTHON = "python"  # the kind of target that needs a function


class Lane(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The requirements of an execution on a node."""

    queue: str = DEFAULT_QUEUE
    labels: tuple[tuple[str, str], ...] = ()
    functions: tuple[str, ...] = ()
    fallback_us: int | None = None  # after being ready for this long, it may run without the labels

    @property
    def text(self) -> str:
        """The lane as text, equal for equal lanes. A lane of only a queue is the queue's name."""
        if not self.labels and not self.functions:
            return self.queue
        return msgspec.json.encode(self).decode()

    def suits_after_fallback(self, *, queues: Collection[str] | None, functions: frozenset[str]) -> bool:
        """Return whether a node can take the work after ``fallback_us``, when labels no longer count."""
        return self.fallback_us is not None and self.suits(queues=queues, labels=dict(self.labels), functions=functions)

    def suits(self, *, queues: Collection[str] | None, labels: Mapping[str, str], functions: frozenset[str]) -> bool:
        """Return whether a node with these queues (None: any), labels and functions can take the work."""
        if queues is not None and self.queue not in queues:
            return False
        if self.labels and not all(labels.get(key) == value for key, value in self.labels):
            return False
        return functions.issuperset(self.functions)


@lru_cache(maxsize=10_000)
def read_lane(text: str) -> Lane:
    """Parse the text of a lane."""
    return msgspec.json.decode(text, type=Lane) if text.startswith("{") else Lane(queue=text)


def list_functions(spec: JobSpec) -> tuple[str, ...]:
    """Return the Python functions that the tasks of a job and its ``on_start`` hook need."""
    functions = {str(task.target.options["name"]) for task in spec.tasks if task.target.kind == PYTHON}
    if spec.on_start is not None and spec.on_start.kind == PYTHON:
        functions.add(str(spec.on_start.options["name"]))
    return tuple(sorted(functions))


def build_lane(spec: JobSpec, effective: EffectiveSettings) -> Lane:
    """Build the lane of a job."""
    return make_lane(list_functions(spec), effective)


def make_lane(functions: tuple[str, ...], effective: EffectiveSettings) -> Lane:
    """Build the lane of a job that needs these functions."""
    if not functions and not effective.labels:
        return read_lane(effective.queue)
    return Lane(
        # The same object as the default of the field, which the text leaves out by identity.
        queue=DEFAULT_QUEUE if effective.queue == DEFAULT_QUEUE else effective.queue,
        labels=tuple(sorted(effective.labels.items())),
        functions=functions,
        fallback_us=effective.fallback_us if effective.labels else None,
    )
