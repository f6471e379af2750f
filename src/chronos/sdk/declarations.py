"""The jobs that a program declares, checked at the line that declares them.

A mistake raises an error at once. Its message begins with the function or the job at fault.
"""

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, ParamSpec, TypeVar

from msgspec.structs import replace

from chronos.core.config import NOTHING_SET, Settings, merge
from chronos.core.lane import PYTHON
from chronos.errors import Conflict, Invalid, InvalidSchedule
from chronos.runners.python.function_registry import Function, FunctionRegistry, Isolation, inspect_function
from chronos.runners.target_kinds import BUILT_IN_KINDS
from chronos.sdk.job_options import Shape
from chronos.service.serializers import Check, Draft, InvalidJob, Problem, read_job

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)


class DecoratedFunction(Generic[P, R_co]):
    """A function that was made a job or a task; calling it calls the function."""

    __name__: str
    __wrapped__: Callable[P, R_co]

    def __init__(self, function: Callable[P, R_co]) -> None:
        functools.update_wrapper(self, unwrap_function(function))

    @property
    def function(self) -> Callable[P, R_co]:
        """The function that was decorated."""
        return self.__wrapped__

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        return self.__wrapped__(*args, **kwargs)


def unwrap_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """Remove the wrapper of a job or task, and only that: wrappers of other decorators stay."""
    return function.function if isinstance(function, DecoratedFunction) else function


class FunctionRef(NamedTuple):
    """A function to register, and where it runs."""

    function: Callable[..., Any]
    isolation: str = Isolation.THREAD.value


@dataclass(slots=True)
class DeclaredJobs:
    """The jobs of one program by name, and the functions that they call."""

    namespace: str
    owner: str | None
    functions: FunctionRegistry
    checks: Mapping[str, Check]
    defaults: Settings = NOTHING_SET  # stored with each job, as far as it does not set them
    jobs: dict[str, Draft] = field(default_factory=dict)
    unsaved: set[str] = field(default_factory=set)
    empty_groups: set[str] = field(default_factory=set)  # groups that have no tasks yet
    kept: set[str] = field(default_factory=set)  # jobs that this program changed in the store after declaring them
    on_change: Callable[[], None] = lambda: None

    def check_name_is_free(self, name: str) -> None:
        """Raise ``Conflict`` when a job has this name."""
        if name in self.jobs or name in self.empty_groups:
            raise Conflict(f'there is already a job "{name}"; choose another name with name=…')

    def check_has_no_empty_group(self) -> None:
        """Raise ``Invalid`` when a group has no tasks."""
        if self.empty_groups:
            raise Invalid(f'the group "{min(self.empty_groups)}" has no tasks; add one with @group.task')

    def keep_stored(self, name: str) -> None:
        """Do not save a job as declared when the app starts, because this program changed it in the store."""
        if name in self.jobs:
            self.kept.add(name)

    def to_checked_payload(self, name: str, payload: Any) -> Any:
        """Return a payload with its typed values as JSON. Raises ``Invalid`` when it does not fit the function.

        Only jobs of this program whose single task calls a function of this program are checked.
        """
        draft = self.jobs.get(name)
        if payload is None or draft is None or len(draft.spec.tasks) != 1:
            return payload
        target = draft.spec.tasks[0].target
        if target.kind != PYTHON or target.options.get("payload") is not None:
            return payload
        function = self.functions.get(target.options["name"])
        if function is None:
            return payload
        payload = function.to_payload(payload)
        function.arguments(payload)
        return payload

    def to_job_name(self, job: Any) -> str:
        """The name of a job, given by its name, its handle or its function. Raises ``Invalid``."""
        if not callable(job) or isinstance(getattr(job, "name", None), str):
            return to_name(job)
        names = [name for name in self.jobs if (known := self.functions.get(name)) is not None and known.call is job]
        if len(names) == 1:
            return names[0]
        if names:
            raise Invalid(f"{describe_function(job)} is several jobs: {', '.join(names)}; use the name of one of them")
        raise Invalid(f"{describe_function(job)} is not a job of this program; make it one with @app.job")

    def to_function_name(self, function: Any) -> tuple[str, dict[str, FunctionRef]]:
        """The name that a function is called by, and the function if it has yet to be registered. Raises ``Invalid``.

        A function may be given by its name in any program, as an object, or as a job or task.
        """
        if isinstance(function, str):
            return function, {}
        if not callable(function):
            raise Invalid(f"{function!r} is neither a function nor the name of one")
        own = unwrap_function(function)
        name = self.functions.name_of(own)
        if name is not None:
            return name, {}
        name = choose_function_name(own, None)
        return name, {name: FunctionRef(own)}

    def put(self, name: str, shape: Shape, refs: Mapping[str, FunctionRef]) -> None:
        """Add a job, or replace it by one with more tasks. Changes nothing when it raises."""
        draft = self.read(name, shape)
        new_functions = {
            function_name: inspect_function(function_name, ref.function, ref.isolation)
            for function_name, ref in refs.items()
        }
        self._check_payloads(draft, new_functions)
        for function_name, ref in refs.items():
            self.functions.register(function_name, ref.function, ref.isolation)
        self.jobs[name] = draft
        self.unsaved.add(name)
        self.kept.discard(name)
        self.empty_groups.discard(name)
        self.on_change()

    def _check_payloads(self, draft: Draft, new_functions: Mapping[str, Function]) -> None:
        """Raise ``Invalid`` if the declared payload does not fit a function, or lacks where the job runs by itself."""
        spec = draft.spec
        runs_by_itself = spec.schedule is not None or bool(spec.after) or draft.runs_on_every_change
        for task in spec.tasks:
            function_name = task.target.options.get("name") if task.target.kind == PYTHON else None
            if not isinstance(function_name, str):
                continue
            function = new_functions.get(function_name) or self.functions.get(function_name)
            payload = task.target.options.get("payload")
            payload = spec.payload if payload is None else payload
            if function is None or (payload is None and not runs_by_itself):
                continue
            if payload is None and function.required:
                first = min(function.required, key=function.parameter_names.index)
                raise Invalid(
                    f'the parameter "{first}" has no value when the job runs by itself; '
                    f'give it a default, or add payload={{"{first}": …}}'
                )
            function.arguments(payload)

    def read(self, name: str, shape: Shape) -> Draft:
        """Read a job shape. Raises ``Invalid``."""
        full_shape = {"name": name, "namespace": self.namespace, "schedule": "manual", **shape}
        if self.owner is not None:
            full_shape["owner"] = self.owner
        draft = read_job(full_shape, checks=self.checks, namespace=self.namespace)
        if self.defaults == NOTHING_SET:
            return draft
        return replace(draft, spec=replace(draft.spec, settings=merge(self.defaults, draft.spec.settings)))


def to_json_payload(name: str, function: Callable[..., Any], payload: Any) -> Any:
    """A declared payload with its typed values as JSON. Raises ``Invalid``."""
    return None if payload is None else inspect_function(name, unwrap_function(function)).to_payload(payload)


def build_python_target(name: str, options: Mapping[str, Any], payload: Any = None) -> Shape:
    """The target that calls the function registered as ``name``."""
    fields = {"name": name, "limits": options.get("limits"), "payload": payload}
    return {"python": {key: value for key, value in fields.items() if value is not None}}


def make_function_ref(function: Callable[..., Any], options: Mapping[str, Any]) -> FunctionRef:
    """A function with the isolation that its options name. Raises ``Invalid``."""
    if options.get("limits") and options.get("isolation") != Isolation.PROCESS.value:
        raise Invalid('limits apply to a process only; add isolation="process"')
    isolation = options.get("isolation", Isolation.THREAD.value)
    if not isinstance(isolation, str):
        raise Invalid(f"isolation is {isolation!r}; use one of {', '.join(each.value for each in Isolation)}")
    return FunctionRef(unwrap_function(function), isolation)


def read_hooks(job: str, options: Mapping[str, Any]) -> tuple[Shape, dict[str, FunctionRef]]:
    """The hooks of a job: their part of the job shape, and the functions that they call."""
    shape: Shape = {}
    refs: dict[str, FunctionRef] = {}
    for key in ("on_start", "on_complete"):
        hook = options.get(key)
        if hook is None:
            continue
        if isinstance(hook, Mapping):
            shape[key] = dict(hook)
        elif callable(hook):
            name = f"{job}.{key}"
            shape[key] = build_python_target(name, {})
            refs[name] = FunctionRef(unwrap_function(hook))
        else:
            raise Invalid(f"{key} is {hook!r}; use a function or a target like {{'http': {{'url': …}}}}")
    return shape, refs


def read_after(after: Any, to_job_name: Callable[[Any], str]) -> Shape:
    """The jobs that a job follows, given as jobs, functions, names or ``{"job", "on"}``."""
    if after is None:
        return {}

    def read_dependency(item: Any) -> Shape:
        if not isinstance(item, Mapping):
            return {"job": to_job_name(item)}
        return {**item, "job": to_job_name(item["job"])} if "job" in item else dict(item)

    return {"after": [read_dependency(item) for item in to_list(after)]}


def to_list(value: Any) -> Sequence[Any]:
    """A sequence as it is; any other value as a list of one."""
    return value if isinstance(value, Sequence) and not isinstance(value, str) else [value]


def to_name(value: Any) -> str:
    """The name of a job or task, given as the object or by its name."""
    name = value if isinstance(value, str) else getattr(value, "name", None)
    if not isinstance(name, str):
        raise Invalid(f"{value!r} is neither a job or task nor the name of one")
    return name


def describe_function(function: Callable[..., Any]) -> str:
    """The module and name of a function, for messages."""
    return f"{getattr(function, '__module__', '?')}.{getattr(function, '__qualname__', repr(function))}"


def choose_function_name(function: Callable[..., Any], name: str | None) -> str:
    """``name``, or else the function's own name. Raises ``Invalid`` for a lambda without ``name``."""
    if name is not None:
        return name
    own_name = getattr(function, "__name__", None)
    if own_name is None or own_name == "<lambda>":
        raise Invalid("the function has no name; choose one with name=…")
    return str(own_name)


@contextmanager
def prefix_errors(subject: str) -> Iterator[None]:
    """Put the function or job, and the argument at fault, before the message of an error."""
    try:
        yield
    except InvalidJob as error:
        messages = [f"{_to_argument_name(problem)}: {problem.message}" for problem in error.problems]
        raise Invalid(f"{subject}: " + "\n  ".join(messages)) from None
    except InvalidSchedule as error:
        raise error.named(f"{subject}: {error.subject}") from None
    except (Invalid, Conflict) as error:
        raise type(error)(f"{subject}: {error}") from None


#: Fields of the job shape whose argument has another name.
_ARGUMENTS = {"task_timeout": "timeout", "in": "in_", "for": "for_", "max_attempts": "retries"}


def _to_argument_name(problem: Problem) -> str:
    """The argument that the field at a problem's pointer came from."""
    steps = [step for step in problem.pointer.split("/") if step]
    if steps[:1] == ["tasks"]:
        steps = steps[2:] or steps[:1]
    if len(steps) > 1 and steps[0] in ("schedule", *BUILT_IN_KINDS, "retry"):
        steps = steps[1:]
    return ".".join([_ARGUMENTS.get(steps[0], steps[0]), *steps[1:]]) if steps else "job"
