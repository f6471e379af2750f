"""``Chronos``: the object that holds a program's jobs and their store."""

import os
import socket
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar, Unpack, cast, overload

from chronos.assembly import WebhookOptions, hide_url_password
from chronos.clock import SystemClock
from chronos.core.schedule.timezones import get_zone
from chronos.engine.options import EngineOptions
from chronos.errors import ChronosError, Invalid
from chronos.sdk.declarations import (
    FunctionRef,
    build_python_target,
    choose_function_name,
    describe_function,
    make_function_ref,
    prefix_errors,
    read_after,
    read_hooks,
)
from chronos.sdk.group import Group
from chronos.sdk.home_loop import OnHomeLoop, blocking, on_home_loop
from chronos.sdk.info import JobInfo, to_job_info
from chronos.sdk.job import Job, JobHandle
from chronos.sdk.job_options import (
    CommandJobOptions,
    Duration,
    FunctionJobOptions,
    GroupOptions,
    Instant,
    JobOptions,
    Shape,
    TaskJobOptions,
    WebhookJobOptions,
    build_command_target,
    build_http_target,
    build_job_shape,
    build_other_target,
    check_keywords,
    to_seconds,
)
from chronos.sdk.run_forever import run_forever
from chronos.sdk.run_handle import Run, read_execution_id
from chronos.sdk.runtime import Runtime
from chronos.sdk.task_job import TaskDecorator, TaskJob, check_task_parameters
from chronos.store.contract import JobFilter

P = ParamSpec("P")
R = TypeVar("R")
#: The end of the message about a webhook to a private address.
_PRIVATE_ADDRESS_ADVICE = "allow it with Chronos(allow_hosts=[…]), or every private address with allow_private=True"


class Chronos(OnHomeLoop):
    """An app: a program's jobs, and the store they are kept in.

    - ``url``: ``sqlite:///app.db`` (a relative path), ``sqlite:////var/app.db`` (an absolute one), ``sqlite://`` (in
      memory), ``postgresql://…``, or ``http://…`` to be a client of a Chronos server.
    - ``owner``: a name for the program. Jobs with this owner that the program no longer declares are deleted at start.
    - ``namespace``: the app sees only the jobs of its namespace.
    - ``timezone``: the zone of schedules that set none; UTC by default.
    - ``node_name``: the name of this node in records. By default the host name and the process id.
    - ``slots``: how many runs this process executes at once.
    - ``queues``, ``labels``: the queues that this node serves (None: all), and its labels for ``placement``.
    - ``grace``: how long runs may take to end when the app stops, or after they are canceled.
    - ``timeout_grace``: how long a run may take to end after its timeout.
    - ``defaults``: settings for jobs that do not set them, such as ``{"retries": 5}``.
    - ``allow_private``, ``allow_hosts``: webhooks to private addresses are rejected. ``allow_hosts`` allows some
      (names, ``*.internal``, addresses or networks), ``allow_private=True`` all.

    Several programs may share a store. Each runs the jobs whose functions it has.

    Raises ``Invalid`` for a wrong argument. The store is opened by the first call that needs it.

    Example::

        app = Chronos("sqlite:///app.db")

        @app.job(cron="0 9 * * 1-5", timezone="Europe/Paris")
        def send_report() -> None: ...

        app.run()
    """

    _job_kind: type[Job[Any, Any]] = Job
    _task_kind: type[TaskJob[Any, Any, Any]] = TaskJob
    _group_kind: type[Group] = Group
    _handle_kind: type[JobHandle] = JobHandle

    def __new__(cls, url: str, **options: Any) -> Self:
        """Make a ``RemoteChronos`` for the address of a server."""
        if not isinstance(url, str):
            raise Invalid(f"the store is {url!r}; use its address, such as sqlite:///app.db")
        if cls is Chronos and url.startswith(("http://", "https://")):
            from chronos.sdk.remote.app import RemoteChronos  # noqa: PLC0415 - it is a subclass of Chronos

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
        check_app_options(namespace=namespace, owner=owner, timezone=timezone, node_name=node_name)
        options = EngineOptions(
            node_name=node_name or f"{socket.gethostname()}-{os.getpid()}",
            slots=_check_integer(slots, "slots"),
            queues=None if queues is None else frozenset(_check_texts(queues, "queues")),
            labels=_check_labels(labels),
            grace_s=to_seconds(grace, "grace"),
            timeout_grace_s=to_seconds(timeout_grace, "timeout_grace"),
        )
        self._runtime = Runtime(
            url,
            options=options,
            clock=SystemClock(),
            namespace=namespace,
            owner=owner,
            defaults={} if defaults is None else defaults,
            http=WebhookOptions(
                allow_private=allow_private,
                allow_hosts=_check_texts(allow_hosts, "allow_hosts"),
                advice=_PRIVATE_ADDRESS_ADVICE,
            ),
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
        """Make a function a job. The decorated function can still be called as before.

        Use it as ``@app.job`` or ``@app.job(keyword=…)``. At most one keyword says when the job runs: ``cron``,
        ``every``, ``at``, ``in_``, ``iso8601``, ``words`` or ``schedule``. A job without one runs when it is triggered,
        or after the jobs named by ``after``. By default a failed run is attempted three times; ``retries=0`` turns that
        off. A parameter called ``ctx`` receives the ``Context``; the payload fills the others by name.

        Other keywords:

        - when: ``timezone``, ``dst``, ``start``, ``end``, ``jitter``, ``exclude``, ``enabled``
        - failures: ``retries``, ``retry``, ``timeout``, ``execution_timeout``, ``delivery``, ``on_failure``
        - several runs: ``overlap``, ``concurrency``, ``queue_max``, ``priority``, ``recovery``
        - other jobs: ``after``, ``on_start``, ``on_complete``
        - where: ``queue``, ``placement``, ``isolation``, ``limits``
        - data: ``name``, ``payload``, ``tags``, ``description``, ``update``, ``retention``

        Returns the ``Job``. Raises ``Invalid`` for a wrong keyword or value, and ``Conflict`` for a name that is taken.

        Example::

            @app.job(every="5m", retries=5, timeout="30s")
            async def poll(url: str = "https://example.com") -> int: ...
        """

        def add(function: Callable[P, R]) -> Job[P, R]:
            with prefix_errors(describe_function(function)):
                check_keywords(options, FunctionJobOptions)
                name = choose_function_name(function, options.get("name"))
                target = build_python_target(name, options)
                self._declare(name, target, options, {name: make_function_ref(function, options)})
            return self._keep_handle(self._job_kind(self._runtime, name, function))

        return add if function is None else add(function)

    @overload
    def task(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> TaskJob[P, Coroutine[Any, Any, R], R]: ...

    @overload
    def task(self, function: Callable[P, R], /) -> TaskJob[P, R, R]: ...

    @overload
    def task(self, /, **options: Unpack[TaskJobOptions]) -> TaskDecorator: ...

    def task(self, function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
        """Make a function a task: a function to call in the background. It can still be called as before.

        Use it as ``@app.task`` or ``@app.task(keyword=…)``. A task is a job without a schedule whose runs may overlap.
        ``enqueue`` calls it in the background, in any program that has the function and runs.

        Takes the keywords of ``job`` except those of a schedule, ``after``, ``payload`` and ``recovery``.

        Returns the ``TaskJob``. Raises as ``job`` does, and ``Invalid`` for a parameter with the name of an option of
        ``enqueue``.

        Example::

            @app.task(retries=5)
            def send_mail(to: str) -> None: ...

            send_mail.enqueue(to="ana@example.com", delay="10m")
        """

        def add(function: Callable[..., Any]) -> TaskJob[Any, Any, Any]:
            with prefix_errors(describe_function(function)):
                check_keywords(options, TaskJobOptions)
                name = choose_function_name(function, options.get("name"))
                check_task_parameters(name, function)
                settings = {"overlap": "allow", **options}
                target = build_python_target(name, options)
                self._declare(name, target, settings, {name: make_function_ref(function, options)})
            return self._keep_handle(self._task_kind(self._runtime, name, function))

        return add if function is None else add(function)

    def group(self, name: str, **options: Unpack[GroupOptions]) -> Group:
        """Declare a job of several tasks. Add them with the methods of the group.

        Takes the keywords of ``job`` except ``name``, ``isolation`` and ``limits``, and ``mode``: ``"sequential"``,
        ``"parallel"`` or ``"graph"`` (the default once a task has ``needs``).

        Returns the ``Group``. Raises as ``job`` does.
        """
        with prefix_errors(f"group {name}"):
            check_keywords(options, GroupOptions)
            self._runtime.declared.check_name_is_free(name)
            shape, refs = self._build_shape(name, {}, options)
            return self._keep_handle(self._group_kind(self._runtime, name, shape, refs))

    def webhook(self, name: str, url: str, **options: Unpack[WebhookJobOptions]) -> JobHandle:
        """Declare a job that sends an HTTP request.

        Takes ``method``, ``headers``, ``query``, ``json``, ``body``, ``auth``, ``success_codes``, ``retry_codes``,
        ``redirects``, and the keywords of ``job`` except ``name``, ``isolation`` and ``limits``.

        Returns a ``JobHandle``. Raises as ``job`` does.

        Example::

            app.webhook("ping", "https://example.com/hook", json={"hello": "world"}, every="1h")
        """
        return self._declare_target(name, lambda: build_http_target(url, options), options, WebhookJobOptions)

    def command(self, name: str, argv: Sequence[str], **options: Unpack[CommandJobOptions]) -> JobHandle:
        """Declare a job that runs a command.

        ``argv`` is the program and its arguments, as a list. Takes ``env``, ``cwd``, ``user``, ``stdin``,
        ``success_codes``, ``limits``, and the keywords of ``job`` except ``name`` and ``isolation``.

        Returns a ``JobHandle``. Raises as ``job`` does.

        Example::

            app.command("backup", ["pg_dump", "--file=backup.sql", "shop"], cron="0 3 * * *")
        """
        return self._declare_target(name, lambda: build_command_target(argv, options), options, CommandJobOptions)

    def python(self, name: str, function: str, **options: Unpack[JobOptions]) -> JobHandle:
        """Declare a job that calls a function of another program, by the name that it has there.

        Takes the keywords of ``job`` except ``name``, ``isolation`` and ``limits``.

        Returns a ``JobHandle``. Raises as ``job`` does.
        """
        return self._declare_target(name, lambda: build_python_target(function, {}), options, JobOptions)

    def target(
        self, name: str, kind: str, options: Mapping[str, Any] | None = None, **settings: Unpack[JobOptions]
    ) -> JobHandle:
        """Declare a job with another kind of target, such as one from an installed package.

        ``options`` are the options of the target. Takes the keywords of ``job`` except ``name``, ``isolation`` and
        ``limits``.

        Returns a ``JobHandle``. Raises as ``job`` does.
        """

        def build_target() -> Shape:
            return {"tasks": [{"name": "main", **build_other_target(kind, options)}]}

        return self._declare_target(name, build_target, settings, JobOptions)

    # --- running

    def run(self) -> int:
        """Run the jobs until SIGTERM or SIGINT, in a program that does nothing else.

        The first signal lets runs finish within the grace period; a second one does not wait. Log lines of ``chronos``
        go to stderr if the program configured no logging.

        Returns the exit status: 0, or 1 when the engine failed. Raises ``RuntimeError`` on a running event loop.

        Example::

            sys.exit(app.run())
        """
        return run_forever(self._runtime)

    async def astart(self) -> None:
        """Save the declared jobs and run them on the running event loop. ``async with app:`` starts and stops.

        Raises ``Invalid`` for a group without tasks, and ``Unavailable`` when the store cannot be opened.
        """
        await self._home.adopt_running_loop()
        try:
            await self._runtime.start()
        except BaseException:
            await self._home.release()
            raise

    async def astop(self, grace: Duration | None = None) -> None:
        """Stop the engine, wait for running jobs, and close the store. No-op when nothing is open.

        - ``grace``: how long runs may take to finish. By default the ``grace`` of the app.
        """
        await self._home.release(lambda: self._runtime.stop(to_grace_s(grace)))

    def start(self) -> None:
        """Save the declared jobs and run them in a background thread. ``with app:`` starts and stops.

        Raises as ``astart`` does.
        """
        try:
            self._home.run_blocking(self._runtime.start, "app.astart()")
        except ChronosError:
            self._home.close()
            raise

    def stop(self, grace: Duration | None = None) -> None:
        """Stop the engine, wait for running jobs, and close the store. No-op when nothing is open.

        - ``grace``: how long runs may take to finish. By default the ``grace`` of the app.
        """
        self._home.close(lambda: self._runtime.stop(to_grace_s(grace)))

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

    # --- jobs of the store

    def scheduled_jobs(self) -> list[JobHandle]:
        """The jobs that this program declares, as handles."""
        return [self._handles[name] for name in self._runtime.declared.jobs]

    @on_home_loop
    async def aall_jobs(self) -> list[JobInfo]:
        """List every job of the namespace, by name, including those of other programs.

        Returns a ``JobInfo`` per job.
        """
        session = await self._runtime.session()
        return [to_job_info(job) async for job in session.iterate_jobs(JobFilter(namespace=self._runtime.namespace))]

    async def atrigger(
        self,
        name: str,
        payload: Any = None,
        *,
        at: Instant | None = None,
        in_: Duration | None = None,
        expires: Duration | Instant | None = None,
        key: str | None = None,
    ) -> Run:
        """Run a job of the store once, now or later. Another program may have declared it.

        Parameters, return value and errors are those of ``JobHandle.trigger``.
        """
        return await JobHandle(self._runtime, name).atrigger(payload, at=at, in_=in_, expires=expires, key=key)

    all_jobs = blocking(aall_jobs)
    trigger = blocking(atrigger)

    def get(self, name: str) -> JobHandle:
        """The handle of a job of the store, by its name. Another program may have declared it.

        Does not read the store: methods of the handle raise ``NotFound`` if the store lacks the job.
        """
        return self._handles.get(name) or JobHandle(self._runtime, name)

    def get_run(self, id: str) -> Run:
        """The handle of a run, by its id.

        Does not read the store: methods of the handle raise ``NotFound`` if the store lacks the run.
        Raises ``NotFound`` for text that is not an id.
        """
        return Run(self._runtime, read_execution_id(id), "")

    # --- internals

    def _declare_target(
        self, name: str, build_target: Callable[[], Shape], options: Mapping[str, Any], allowed: type
    ) -> JobHandle:
        with prefix_errors(f"job {name}"):
            check_keywords(options, allowed)
            self._declare(name, build_target(), options, {})
        return self._keep_handle(self._handle_kind(self._runtime, name))

    def _declare(self, name: str, target: Shape, options: Mapping[str, Any], refs: Mapping[str, FunctionRef]) -> None:
        self._runtime.declared.check_name_is_free(name)
        shape, hook_refs = self._build_shape(name, target, options)
        self._runtime.declared.put(name, shape, {**refs, **hook_refs})

    def _build_shape(
        self, name: str, target: Shape, options: Mapping[str, Any]
    ) -> tuple[Shape, dict[str, FunctionRef]]:
        hooks, refs = read_hooks(name, options)
        shape = build_job_shape(options, timezone=self._timezone)
        return {**shape, **target, **read_after(options.get("after")), **hooks}, refs

    def _keep_handle(self, handle: "Handle") -> "Handle":
        self._handles[handle.name] = handle
        return handle

    def _format_call(self, method: str) -> str:
        return f"app.{method}(…)"

    def __repr__(self) -> str:
        return f"<Chronos {hide_url_password(self._runtime.url)}>"


Handle = TypeVar("Handle", bound=JobHandle)


def to_grace_s(grace: Duration | None) -> float | None:
    """A grace period in seconds; None: that of the app."""
    return None if grace is None else to_seconds(grace, "grace")


def check_app_options(*, timezone: str | None, **texts: str | None) -> None:
    """Check the texts and the time zone of an app. Raises ``Invalid``."""
    for argument, value in (*texts.items(), ("timezone", timezone)):
        if value is not None and (not isinstance(value, str) or not value):
            raise Invalid(f"{argument} is {value!r}; use text, or leave it out")
    if timezone is not None:
        try:
            get_zone(timezone)
        except LookupError as error:
            raise Invalid(f"timezone: {error.args[0]}") from None


def _check_integer(value: int, argument: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise Invalid(f"{argument} is {value!r}; use a whole number")
    return value


def _check_texts(values: Sequence[str], argument: str) -> tuple[str, ...]:
    texts = None if isinstance(values, str) or not isinstance(values, Iterable) else tuple(values)
    if texts is None or not all(isinstance(text, str) for text in texts):
        raise Invalid(f"{argument} is {values!r}; use a list of texts")
    return texts


def _check_labels(labels: Mapping[str, str] | None) -> dict[str, str]:
    labels = {} if labels is None else labels
    if not isinstance(labels, Mapping) or not all(isinstance(text, str) for pair in labels.items() for text in pair):
        raise Invalid(f'labels is {labels!r}; use an object of texts, like {{"region": "eu"}}')
    return dict(labels)
