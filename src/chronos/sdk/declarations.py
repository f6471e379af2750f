"""What a program says about its jobs, checked when it is said.

A mistake is raised where it was written, by a message that begins with the function or the job at fault: not later, at
three in the morning.
"""

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, ParamSpec, TypeVar

from chronos.errors import Conflict, Invalid, InvalidSchedule
from chronos.runners.python.function_registry import FunctionRegistry, Isolation, inspect_function
from chronos.sdk.job_options import Shape
from chronos.service.serializers import Check, Draft, InvalidJob, Problem, read_job

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)


class DecoratedFunction(Generic[P, R_co]):
    """Called, it is the function."""

    __name__: str
    __wrapped__: Callable[P, R_co]

    def __init__(self, function: Callable[P, R_co]) -> None:
        functools.update_wrapper(self, bare(function))

    @property
    def function(self) -> Callable[P, R_co]:
        """The function itself."""
        return self.__wrapped__

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        return self.__wrapped__(*args, **kwargs)


def bare(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function itself, of one that may be a job or task already. What other decorators made of it is kept."""
    return function.function if isinstance(function, DecoratedFunction) else function


class FunctionRef(NamedTuple):
    """A function to be known by a name."""

    function: Callable[..., Any]
    isolation: str = Isolation.THREAD.value


@dataclass(slots=True)
class DeclaredJobs:
    """The jobs of one program, by name, and the functions that they run."""

    namespace: str
    owner: str | None
    functions: FunctionRegistry
    checks: Mapping[str, Check]
    jobs: dict[str, Draft] = field(default_factory=dict)
    unsaved: set[str] = field(default_factory=set)
    promised: set[str] = field(default_factory=set)  # groups that have no tasks yet
    on_change: Callable[[], None] = lambda: None

    def refuse_second(self, name: str) -> None:
        """Raise ``Conflict`` when there is a job of this name."""
        if name in self.jobs or name in self.promised:
            raise Conflict(f'there is a job "{name}" already; give this one another with name=…')

    def put(self, name: str, shape: Shape, calls: Mapping[str, FunctionRef]) -> None:
        """A job, new or with more to it than before. Nothing has changed when this raises."""
        draft = self.read(name, shape)
        for called, call in calls.items():
            inspect_function(called, call.function, call.isolation)
        for called, call in calls.items():
            self.functions.register(called, call.function, call.isolation)
        self.jobs[name] = draft
        self.unsaved.add(name)
        self.promised.discard(name)
        self.on_change()

    def read(self, name: str, shape: Shape) -> Draft:
        """The job that a shape means. Raises ``Invalid``."""
        whole = {"name": name, "namespace": self.namespace, "schedule": "manual", **shape}
        if self.owner is not None:
            whole["owner"] = self.owner
        return read_job(whole, checks=self.checks, namespace=self.namespace)


def calling(name: str, options: Mapping[str, Any], payload: Any = None) -> Shape:
    """The target that calls the function of a name."""
    said = {"name": name, "limits": options.get("limits"), "payload": payload}
    return {"python": {key: value for key, value in said.items() if value is not None}}


def call_of(function: Callable[..., Any], options: Mapping[str, Any]) -> FunctionRef:
    """A function with how it is to be run."""
    if options.get("limits") and options.get("isolation") != Isolation.PROCESS.value:
        raise Invalid('limits hold for a process; add isolation="process"')
    isolation = options.get("isolation", Isolation.THREAD.value)
    if not isinstance(isolation, str):
        raise Invalid(f"isolation is {isolation!r}; give one of {', '.join(each.value for each in Isolation)}")
    return FunctionRef(bare(function), isolation)


def hooks(job: str, options: Mapping[str, Any]) -> tuple[Shape, dict[str, FunctionRef]]:
    """What runs before the first task and after the last, and the functions that this needs."""
    shape: Shape = {}
    calls: dict[str, FunctionRef] = {}
    for key in ("on_start", "on_complete"):
        hook = options.get(key)
        if hook is None:
            continue
        if isinstance(hook, Mapping):
            shape[key] = dict(hook)
        elif callable(hook):
            name = f"{job}.{key}"
            shape[key] = calling(name, {})
            calls[name] = FunctionRef(bare(hook))
        else:
            raise Invalid(f"{key} is {hook!r}; give a function or a target like {{'http': {{'url': …}}}}")
    return shape, calls


def follows(after: Any) -> Shape:
    """What a job comes after: jobs, their names, or ``{"job", "on"}``."""
    if after is None:
        return {}
    return {"after": [_followed(one) for one in several(after)]}


def _followed(one: Any) -> Shape:
    if not isinstance(one, Mapping):
        return {"job": named(one)}
    return {**one, "job": named(one["job"])} if "job" in one else dict(one)


def several(given: Any) -> Sequence[Any]:
    """One thing, or a list of them, as a list."""
    return given if isinstance(given, Sequence) and not isinstance(given, str) else [given]


def named(thing: Any) -> str:
    """The name of a job or task, given as itself or by its name."""
    name = thing if isinstance(thing, str) else getattr(thing, "name", None)
    if not isinstance(name, str):
        raise Invalid(f"{thing!r} is neither a job or task nor the name of one")
    return name


def described(function: Callable[..., Any]) -> str:
    """A function as messages name it."""
    return f"{getattr(function, '__module__', '?')}.{getattr(function, '__qualname__', repr(function))}"


def function_name(function: Callable[..., Any], name: str | None) -> str:
    """The name a function goes by."""
    if name is not None:
        return name
    own = getattr(function, "__name__", None)
    if own is None or own == "<lambda>":
        raise Invalid(f"{function!r} has no name of its own; give one with name=…")
    return str(own)


@contextmanager
def naming(where: str) -> Iterator[None]:
    """An error inside is raised with what it is about: the function or job, and the argument."""
    try:
        yield
    except InvalidJob as error:
        said = [f"{_argument(problem)}: {problem.message}" for problem in error.problems]
        raise Invalid(f"{where}: " + "\n  ".join(said)) from None
    except InvalidSchedule as error:
        raise error.named(f"{where}: {error.subject}") from None
    except (Invalid, Conflict) as error:
        raise type(error)(f"{where}: {error}") from None


#: Where the argument is called otherwise than the field of the job shape that it becomes.
_ARGUMENTS = {"task_timeout": "timeout", "in": "in_", "for": "for_", "max_attempts": "retries"}


def _argument(problem: Problem) -> str:
    """The argument that a pointer into the job shape came from."""
    steps = [step for step in problem.pointer.split("/") if step]
    if steps[:1] == ["tasks"]:
        steps = steps[2:] or steps[:1]
    if len(steps) > 1 and steps[0] in ("schedule", "http", "command", "python", "wait", "retry"):
        steps = steps[1:]
    return ".".join([_ARGUMENTS.get(steps[0], steps[0]), *steps[1:]]) if steps else "job"
