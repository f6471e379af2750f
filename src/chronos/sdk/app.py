"""The app: a program's jobs and the store they live in, in one object."""

import os
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar, Unpack, cast, overload

from chronos.assembly import WebhookOptions, hide_url_password
from chronos.clock import SystemClock
from chronos.core.schedule.timezones import get_zone
from chronos.engine.options import EngineOptions
from chronos.errors import ChronosError, Invalid
from chronos.sdk.declarations import FunctionRef, call_of, calling, described, follows, function_name, hooks, naming
from chronos.sdk.group import Group
from chronos.sdk.home_loop import OnHomeLoop, at_home, blocking
from chronos.sdk.info import JobInfo, job_info
from chronos.sdk.job import Job, JobHandle
from chronos.sdk.job_options import (
    CommandJobOptions,
    Duration,
    FunctionJobOptions,
    GroupOptions,
    Instant,
    JobOptions,
    Shape,
    WebhookJobOptions,
    command_target,
    http_target,
    job_shape,
    other_target,
    refuse_unknown,
    seconds,
)
from chronos.sdk.run import Run, execution_bytes
from chronos.sdk.run_forever import serve
from chronos.sdk.runtime import Runtime
from chronos.store.contract import JobFilter

P = ParamSpec("P")
R = TypeVar("R")


class Chronos(OnHomeLoop):
    """A program's jobs, and the store they live in.

    ``url``: ``sqlite:///app.db``, ``sqlite://`` (in memory), ``postgresql://…``, or ``http://…``, which makes the
    program a client of a server. Several programs may share a store:
    each runs the functions that it has. With an ``owner``, jobs that this owner declared once and no longer does are
    deleted when the app starts. ``timezone`` is that of jobs that name none, ``defaults`` are settings of jobs that say
    nothing else. ``slots`` is how many executions run here at once; ``queues`` and ``labels`` say which are taken.
    ``grace`` is how long what runs may take to end when the app stops or the run is canceled, ``timeout_grace`` is the
    same for a run that passed its timeout. Requests to private addresses are refused, except to ``allow_hosts`` or with
    ``allow_private``.
    """

    _job_kind: type[Job[Any, Any]] = Job
    _group_kind: type[Group] = Group
    _handle_kind: type[JobHandle] = JobHandle

    def __new__(cls, url: str, **options: Any) -> Self:
        """The address of a server makes a client of it."""
        if not isinstance(url, str):
            raise Invalid(f"the store is {url!r}; give its address, such as sqlite:///app.db")
        if cls is Chronos and url.startswith(("http://", "https://")):
            from chronos.sdk.remote.app import RemoteChronos  # noqa: PLC0415 - it is a Chronos itself

            return cast("Self", super().__new__(RemoteChronos))
        return super().__new__(cls)

    def __init__(
        self,
        url: str,
        *,
        owner: str | None = None,
        namespace: str = "default",
        timezone: str | None = None,
        node_name: str | None = None,
        slots: int = 100,
        queues: Sequence[str] | None = None,
        labels: Mapping[str, str] | None = None,
        grace: Duration = 30,
        timeout_grace: Duration = 2,
        defaults: Mapping[str, Any] | None = None,
        allow_private: bool = False,
        allow_hosts: Sequence[str] = (),
    ) -> None:
        check_program(namespace=namespace, owner=owner, timezone=timezone, node_name=node_name)
        options = EngineOptions(
            node_name=node_name or f"{socket.gethostname()}-{os.getpid()}",
            slots=_whole(slots, "slots"),
            queues=None if queues is None else frozenset(_texts(queues, "queues")),
            labels=_labels(labels),
            grace_s=seconds(grace, "grace"),
            timeout_grace_s=seconds(timeout_grace, "timeout_grace"),
        )
        self._runtime = Runtime(
            url,
            options=options,
            clock=SystemClock(),
            namespace=namespace,
            owner=owner,
            defaults={} if defaults is None else defaults,
            http=WebhookOptions(allow_private=allow_private, allow_hosts=_texts(allow_hosts, "allow_hosts")),
        )
        self._home = self._runtime.home
        self._timezone = timezone
        self._handles: dict[str, JobHandle] = {}

    # --- declaring jobs

    @overload
    def job(self, function: Callable[P, R], /) -> Job[P, R]: ...

    @overload
    def job(self, /, **options: Unpack[FunctionJobOptions]) -> Callable[[Callable[P, R]], Job[P, R]]: ...

    def job(self, function: Callable[P, R] | None = None, /, **options: Any) -> Any:
        """Make a function a job. It stays callable as the function it was.

        Without a schedule it runs when it is triggered, or after the jobs it follows.
        """

        def add(function: Callable[P, R]) -> Job[P, R]:
            with naming(described(function)):
                refuse_unknown(options, FunctionJobOptions)
                name = function_name(function, options.get("name"))
                self._declare(name, calling(name, options), options, {name: call_of(function, options)})
            return self._hand_out(self._job_kind(self._runtime, name, function))

        return add if function is None else add(function)

    def group(self, name: str, **options: Unpack[GroupOptions]) -> Group:
        """A job of several tasks, to which tasks are then added."""
        with naming(f"group {name}"):
            refuse_unknown(options, GroupOptions)
            self._runtime.declared.refuse_second(name)
            shape, calls = self._shape(name, {}, options)
            return self._hand_out(self._group_kind(self._runtime, name, shape, calls))

    def webhook(self, name: str, url: str, **options: Unpack[WebhookJobOptions]) -> JobHandle:
        """A job that sends an HTTP request."""
        return self._other(name, lambda: http_target(url, options), options, WebhookJobOptions)

    def command(self, name: str, argv: Sequence[str], **options: Unpack[CommandJobOptions]) -> JobHandle:
        """A job that runs a command."""
        return self._other(name, lambda: command_target(argv, options), options, CommandJobOptions)

    def python(self, name: str, function: str, **options: Unpack[JobOptions]) -> JobHandle:
        """A job that calls a function of another program, by the name that it goes by there."""
        return self._other(name, lambda: calling(function, {}), options, JobOptions)

    def target(
        self, name: str, kind: str, does: Mapping[str, Any] | None = None, **options: Unpack[JobOptions]
    ) -> JobHandle:
        """A job of another kind, such as one that a package brings: ``does`` is what that kind is told."""
        return self._other(name, lambda: {"tasks": [{"name": "main", **other_target(kind, does)}]}, options, JobOptions)

    # --- running

    def run(self) -> int:
        """Run until SIGTERM or SIGINT, then let what runs finish within the grace period; a second signal skips that.

        Gives the status to exit with: 0, or 1 when the engine broke, which is logged.
        """
        return serve(self._runtime)

    async def astart(self) -> None:
        """Run on this loop from now on: save the program's jobs, then admit and work on what is due."""
        await self._home.settle()
        try:
            await self._runtime.start()
        except BaseException:
            await self._home.leave()
            raise

    async def astop(self, grace: Duration | None = None) -> None:
        """Let what runs finish within the grace period, then let go of everything. Harmless when nothing is open."""
        await self._home.leave(lambda: self._runtime.stop(grace_s(grace)))

    def start(self) -> None:
        """Run in a thread of its own from now on, beside the rest of the program."""
        try:
            self._home.call(self._runtime.start, "app.astart()")
        except ChronosError:
            self._home.close()
            raise

    def stop(self, grace: Duration | None = None) -> None:
        """Let what runs finish within the grace period, then let go of everything. Harmless when nothing is open."""
        self._home.close(lambda: self._runtime.stop(grace_s(grace)))

    async def __aenter__(self) -> Self:
        await self.astart()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.astop()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # --- asking

    def scheduled_jobs(self) -> list[JobHandle]:
        """The jobs that this program declares."""
        return [self._handles[name] for name in self._runtime.declared.jobs]

    @at_home
    async def aall_jobs(self) -> list[JobInfo]:
        """Every job that the store holds in the app's namespace, whoever declared it, by name."""
        session = await self._runtime.session()
        return [job_info(job) async for job in session.every_job(JobFilter(namespace=self._runtime.namespace))]

    async def atrigger(
        self, name: str, payload: Any = None, *, at: Instant | None = None, key: str | None = None
    ) -> Run:
        """Run a job of the store once, whoever declared it."""
        return await JobHandle(self._runtime, name).atrigger(payload, at=at, key=key)

    all_jobs = blocking(aall_jobs)
    trigger = blocking(atrigger)

    def get(self, name: str) -> JobHandle:
        """A job of the store by its name, whoever declared it."""
        return self._handles.get(name) or JobHandle(self._runtime, name)

    def get_run(self, id: str) -> Run:
        """An execution by its id."""
        return Run(self._runtime, execution_bytes(id), "")

    # --- how

    def _other(self, name: str, does: Callable[[], Shape], options: Mapping[str, Any], allowed: type) -> JobHandle:
        with naming(f"job {name}"):
            refuse_unknown(options, allowed)
            self._declare(name, does(), options, {})
        return self._hand_out(self._handle_kind(self._runtime, name))

    def _declare(self, name: str, does: Shape, options: Mapping[str, Any], calls: Mapping[str, FunctionRef]) -> None:
        self._runtime.declared.refuse_second(name)
        shape, hooked = self._shape(name, does, options)
        self._runtime.declared.put(name, shape, {**calls, **hooked})

    def _shape(self, name: str, does: Shape, options: Mapping[str, Any]) -> tuple[Shape, dict[str, FunctionRef]]:
        hooked, calls = hooks(name, options)
        return {**job_shape(options, timezone=self._timezone), **does, **follows(options.get("after")), **hooked}, calls

    def _hand_out(self, handle: "Handle") -> "Handle":
        self._handles[handle.name] = handle
        return handle

    def _called(self, method: str) -> str:
        return f"app.{method}(…)"

    def __repr__(self) -> str:
        return f"<Chronos {hide_url_password(self._runtime.url)}>"


Handle = TypeVar("Handle", bound=JobHandle)


def grace_s(grace: Duration | None) -> float | None:
    """A grace period in seconds; None: the usual one."""
    return None if grace is None else seconds(grace, "grace")


def check_program(*, timezone: str | None, **texts: str | None) -> None:
    """What a program says about itself. Raises ``Invalid``."""
    for what, said in (*texts.items(), ("timezone", timezone)):
        if said is not None and (not isinstance(said, str) or not said):
            raise Invalid(f"{what} is {said!r}; give a text, or leave it out")
    if timezone is not None:
        try:
            get_zone(timezone)
        except LookupError as error:
            raise Invalid(f"timezone: {error.args[0]}") from None


def _whole(value: int, what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise Invalid(f"{what} is {value!r}; give a whole number")
    return value


def _texts(values: Sequence[str], what: str) -> tuple[str, ...]:
    found = None if isinstance(values, str) or not isinstance(values, Iterable) else tuple(values)
    if found is None or not all(isinstance(each, str) for each in found):
        raise Invalid(f"{what} is {values!r}; give a list of texts")
    return found


def _labels(labels: Mapping[str, str] | None) -> dict[str, str]:
    found = {} if labels is None else labels
    if not isinstance(found, Mapping) or not all(isinstance(each, str) for pair in found.items() for each in pair):
        raise Invalid(f'labels is {labels!r}; give an object of texts, like {{"region": "eu"}}')
    return dict(found)
