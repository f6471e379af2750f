"""A job of several tasks: functions, requests, commands and waits, one after the other, side by side, or as a graph."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, Unpack, overload

from chronos.errors import Conflict
from chronos.sdk.declarations import (
    DecoratedFunction,
    FunctionRef,
    call_of,
    calling,
    described,
    function_name,
    named,
    naming,
    several,
)
from chronos.sdk.job import JobHandle
from chronos.sdk.job_options import (
    CommandTaskOptions,
    Duration,
    FunctionTaskOptions,
    GroupTaskOptions,
    Instant,
    Shape,
    WebhookTaskOptions,
    command_target,
    http_target,
    instant,
    other_target,
    plain_duration,
    refuse_unknown,
    task_shape,
)

if TYPE_CHECKING:
    from chronos.sdk.runtime import Runtime

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
#: Stands for the tasks of a group that has none yet, so that what is said of the group can be checked at once.
_NO_TASK_YET = {"name": "first", "wait": {"for": "1s"}}


class Task:
    """A task of a group, for others to need."""

    def __init__(self, group: str, name: str) -> None:
        self.group = group
        self.name = name

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.group}.{self.name}>"


class FunctionTask(DecoratedFunction[P, R_co], Task):
    """A function that is a task. Called, it is the function it was."""

    def __init__(self, group: str, name: str, function: Callable[P, R_co]) -> None:
        DecoratedFunction.__init__(self, function)
        Task.__init__(self, group, name)


class Group(JobHandle):
    """A job of several tasks. Tasks run in the order in which they are declared, or as ``mode`` and ``needs`` say."""

    def __init__(self, runtime: "Runtime", name: str, shape: Shape, calls: Mapping[str, FunctionRef]) -> None:
        super().__init__(runtime, name)
        self._shape = shape
        self._calls = dict(calls)
        self._tasks: dict[str, Shape] = {}
        runtime.declared.read(name, {**shape, "tasks": [_NO_TASK_YET]})
        runtime.declared.promised.add(name)

    @overload
    def task(self, function: Callable[P, R], /) -> FunctionTask[P, R]: ...

    @overload
    def task(self, /, **options: Unpack[FunctionTaskOptions]) -> Callable[[Callable[P, R]], FunctionTask[P, R]]: ...

    def task(self, function: Callable[P, R] | None = None, /, **options: Any) -> Any:
        """Make a function a task. It stays callable as the function it was."""

        def add(function: Callable[P, R]) -> FunctionTask[P, R]:
            with naming(described(function)):
                refuse_unknown(options, FunctionTaskOptions)
                name = function_name(function, options.get("name"))
                called = f"{self.name}.{name}"
                does = calling(called, options, options.get("payload"))
                self._add(name, does, options, {called: call_of(function, options)})
            return FunctionTask(self.name, name, function)

        return add if function is None else add(function)

    def webhook(self, name: str, url: str, **options: Unpack[WebhookTaskOptions]) -> Task:
        """A task that sends an HTTP request."""
        return self._other(name, lambda: http_target(url, options), options, WebhookTaskOptions)

    def command(self, name: str, argv: Sequence[str], **options: Unpack[CommandTaskOptions]) -> Task:
        """A task that runs a command."""
        return self._other(name, lambda: command_target(argv, options), options, CommandTaskOptions)

    def target(
        self, name: str, kind: str, does: Mapping[str, Any] | None = None, **options: Unpack[GroupTaskOptions]
    ) -> Task:
        """A task of another kind, such as one that a package brings: ``does`` is what that kind is told."""
        return self._other(name, lambda: other_target(kind, does), options, GroupTaskOptions)

    def wait(
        self,
        name: str,
        *,
        for_: Duration | None = None,
        until: Instant | None = None,
        schedule: str | None = None,
        timezone: str | None = None,
        signal: str | None = None,
        timeout: Duration | None = None,
        needs: Any = (),
    ) -> Task:
        """A task that waits: ``for_`` a time, ``until`` an instant, a ``schedule``'s next, or a ``signal``.

        While it waits it holds no slot, no thread and no memory, and it outlasts restarts. ``timeout`` is how long a
        signal is awaited; the task has timed out when it did not come.
        """

        def does() -> Shape:
            said = {
                "for": None if for_ is None else plain_duration(for_, "for_"),
                "until": None if until is None else instant(until, "until"),
                "schedule": schedule,
                "timezone": timezone,
                "signal": signal,
                "timeout": None if timeout is None else plain_duration(timeout, "timeout"),
            }
            return {"wait": {key: value for key, value in said.items() if value is not None}}

        return self._other(name, does, {"needs": needs}, GroupTaskOptions)

    def _other(self, name: str, does: Callable[[], Shape], options: Mapping[str, Any], allowed: type) -> Task:
        with naming(f"task {self.name}.{name}"):
            refuse_unknown(options, allowed)
            self._add(name, does(), options, {})
        return Task(self.name, name)

    def _add(self, name: str, does: Shape, options: Mapping[str, Any], calls: Mapping[str, FunctionRef]) -> None:
        if name in self._tasks:
            raise Conflict(f'the group "{self.name}" has a task "{name}" already; give this one another with name=…')
        needs = [named(need) for need in several(options.get("needs", ()))]
        task = {"name": name, **does, **({"needs": needs} if needs else {}), **task_shape(options)}
        tasks = {**self._tasks, name: task}
        self._runtime.declared.put(self.name, self._whole(tasks), {**self._calls, **calls})
        self._tasks = tasks

    def _whole(self, tasks: Mapping[str, Shape]) -> Shape:
        """The job as it stands; tasks that need others make a graph of it."""
        graph = any("needs" in task for task in tasks.values()) and "mode" not in self._shape
        return {**self._shape, **({"mode": "graph"} if graph else {}), "tasks": list(tasks.values())}
