"""Groups: jobs of several tasks that run in sequence, in parallel, or as a graph."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, Unpack, overload

from chronos.errors import Conflict, Invalid
from chronos.sdk.declarations import (
    DecoratedFunction,
    FunctionRef,
    build_python_target,
    choose_function_name,
    describe_function,
    make_function_ref,
    prefix_errors,
    to_json_payload,
    to_list,
    to_name,
    unwrap_function,
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
    build_command_target,
    build_http_target,
    build_other_target,
    build_task_shape,
    check_keywords,
    to_instant_text,
    to_plain_duration,
)

if TYPE_CHECKING:
    from chronos.sdk.runtime import Runtime

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
#: Stands for the tasks of an empty group, so that the options of the group can be checked at once.
_PLACEHOLDER_TASK = {"name": "first", "wait": {"for": "1s"}}


class Task:
    """A task of a group. Pass it as ``needs`` to the tasks that must wait for it."""

    def __init__(self, group: str, name: str) -> None:
        self.group = group
        self.name = name

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.group}.{self.name}>"


class FunctionTask(DecoratedFunction[P, R_co], Task):
    """A function that is a task of a group. Calling it calls the function."""

    def __init__(self, group: str, name: str, function: Callable[P, R_co]) -> None:
        DecoratedFunction.__init__(self, function)
        Task.__init__(self, group, name)


class Group(JobHandle):
    """A job of several tasks. It is a ``JobHandle`` too.

    Tasks run in the order in which they are declared, unless the group has a ``mode`` or tasks have ``needs``.

    Example::

        etl = app.group("etl", cron="0 3 * * *")

        @etl.task
        def extract() -> int: ...

        @etl.task(needs=extract)
        def load() -> None: ...

        etl.webhook("notify", "https://chat.example.com/hook", needs=load)
    """

    def __init__(self, runtime: "Runtime", name: str, shape: Shape, refs: Mapping[str, FunctionRef]) -> None:
        super().__init__(runtime, name)
        self._shape = shape
        self._refs = dict(refs)
        self._tasks: dict[str, Shape] = {}
        runtime.declared.read(name, {**shape, "tasks": [_PLACEHOLDER_TASK]})
        runtime.declared.empty_groups.add(name)

    @overload
    def task(self, function: Callable[P, R], /) -> FunctionTask[P, R]: ...

    @overload
    def task(self, /, **options: Unpack[FunctionTaskOptions]) -> Callable[[Callable[P, R]], FunctionTask[P, R]]: ...

    def task(self, function: Callable[P, R] | None = None, /, **options: Any) -> Any:
        """Make a function a task of the group. The decorated function can still be called as before.

        Keywords: ``name`` (by default the function's), ``needs``, ``payload``, ``retries``, ``retry``, ``timeout``,
        ``on_failure``, ``delivery``, ``isolation`` and ``limits``.

        Raises ``Conflict`` when the group has a task of this name, ``Invalid`` for a wrong keyword or value.
        """

        def add(function: Callable[P, R]) -> FunctionTask[P, R]:
            with prefix_errors(describe_function(function)):
                check_keywords(options, FunctionTaskOptions)
                name = choose_function_name(function, options.get("name"))
                full_name = f"{self.name}.{name}"
                payload = to_json_payload(full_name, function, options.get("payload"))
                target = build_python_target(full_name, options, payload)
                self._add_task(name, target, options, {full_name: make_function_ref(function, options)})
            return FunctionTask(self.name, name, function)

        return add if function is None else add(function)

    def webhook(self, name: str, url: str, **options: Unpack[WebhookTaskOptions]) -> Task:
        """Add a task that sends an HTTP request.

        Takes the keywords of a request (``method``, ``headers``, ``query``, ``json``, ``body``, ``auth``,
        ``success_codes``, ``retry_codes``, ``redirects``) and those of a task, as in ``task``.

        Returns the ``Task``. Raises as ``task`` does.
        """
        return self._add_target(name, lambda: build_http_target(url, options), options, WebhookTaskOptions)

    def command(self, name: str, argv: Sequence[str], **options: Unpack[CommandTaskOptions]) -> Task:
        """Add a task that runs a command.

        ``argv`` is the program and its arguments, as a list. Takes ``env``, ``cwd``, ``user``, ``stdin``,
        ``success_codes``, ``limits`` and the keywords of a task, as in ``task``.

        Returns the ``Task``. Raises as ``task`` does.
        """
        return self._add_target(name, lambda: build_command_target(argv, options), options, CommandTaskOptions)

    def target(
        self, name: str, kind: str, options: Mapping[str, Any] | None = None, **settings: Unpack[GroupTaskOptions]
    ) -> Task:
        """Add a task with another kind of target, such as one from an installed package.

        ``options`` are the options of the target. Returns the ``Task``. Raises as ``task`` does.
        """
        return self._add_target(name, lambda: build_other_target(kind, options), settings, GroupTaskOptions)

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
        """Add a task that waits. It uses no slot, thread or memory meanwhile, and survives restarts.

        Give one of:

        - ``for_``: a duration.
        - ``until``: an instant.
        - ``schedule``: wait for its next instant, in ``timezone``.
        - ``signal``: wait for ``run.signal(name)``. If none arrives within ``timeout``, the task ends as timed out.

        Returns the ``Task``. Raises as ``task`` does.
        """

        def build_target() -> Shape:
            fields = {
                "for": None if for_ is None else to_plain_duration(for_, "for_"),
                "until": None if until is None else to_instant_text(until, "until"),
                "schedule": schedule,
                "timezone": timezone,
                "signal": signal,
                "timeout": None if timeout is None else to_plain_duration(timeout, "timeout"),
            }
            return {"wait": {key: value for key, value in fields.items() if value is not None}}

        return self._add_target(name, build_target, {"needs": needs}, GroupTaskOptions)

    def _add_target(
        self, name: str, build_target: Callable[[], Shape], options: Mapping[str, Any], allowed: type
    ) -> Task:
        with prefix_errors(f"task {self.name}.{name}"):
            check_keywords(options, allowed)
            self._add_task(name, build_target(), options, {})
        return Task(self.name, name)

    def _add_task(self, name: str, target: Shape, options: Mapping[str, Any], refs: Mapping[str, FunctionRef]) -> None:
        if name in self._tasks:
            raise Conflict(f'the group "{self.name}" already has a task "{name}"; choose another name with name=…')
        needs = [self._to_task_name(need) for need in to_list(options.get("needs", ()))]
        task = {"name": name, **target, **({"needs": needs} if needs else {}), **build_task_shape(options)}
        tasks = {**self._tasks, name: task}
        self._runtime.declared.put(self.name, self._build_shape(tasks), {**self._refs, **refs})
        self._tasks = tasks

    def _to_task_name(self, task: Any) -> str:
        """The name of a task, given by its name, as a task or by its function. Raises ``Invalid``."""
        if not callable(task) or isinstance(task, Task):
            return to_name(task)
        functions = self._runtime.declared.functions
        for name in self._tasks:
            function = functions.get(f"{self.name}.{name}")
            if function is not None and function.call is unwrap_function(task):
                return name
        raise Invalid(f"{describe_function(task)} is not a task of this group; add it with @group.task first")

    def _build_shape(self, tasks: Mapping[str, Shape]) -> Shape:
        """The job with these tasks. It is a graph if a task needs another and the group has no mode."""
        graph = any("needs" in task for task in tasks.values()) and "mode" not in self._shape
        return {**self._shape, **({"mode": "graph"} if graph else {}), "tasks": list(tasks.values())}
