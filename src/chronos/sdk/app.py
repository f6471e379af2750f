"""``Chronos``: the object that holds a program's jobs and their store."""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar, Unpack, cast, overload

from chronos.assembly import WebhookOptions, hide_url_password
from chronos.clock import SystemClock
from chronos.errors import ChronosError, Invalid
from chronos.sdk.app_events import AppEvents
from chronos.sdk.app_options import build_engine_options, check_app_options, check_texts, to_grace_s
from chronos.sdk.declarations import (
    FunctionRef,
    build_python_target,
    choose_function_name,
    describe_function,
    make_function_ref,
    prefix_errors,
    read_after,
    read_hooks,
    to_json_payload,
)
from chronos.sdk.group import Group
from chronos.sdk.job import Job, JobHandle
from chronos.sdk.job_options import (
    CommandJobOptions,
    Duration,
    FunctionJobOptions,
    GroupOptions,
    JobOptions,
    Shape,
    TaskJobOptions,
    WebhookJobOptions,
    build_command_target,
    build_http_target,
    build_job_shape,
    build_other_target,
    check_keywords,
)
from chronos.sdk.run_forever import run_forever
from chronos.sdk.runtime import Runtime
from chronos.sdk.stored_jobs import StoredJobs
from chronos.sdk.task_job import TaskDecorator, TaskJob, check_task_parameters

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

P = ParamSpec("P")
R = TypeVar("R")
#: The end of the message about a webhook to a private address.
_PRIVATE_ADDRESS_ADVICE = "allow it with Chronos(allow_hosts=[…]), or every private address with allow_private=True"


class Chronos(StoredJobs, AppEvents):
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
    - ``heartbeat_interval``, ``heartbeat_timeout``: how often the node reports to the store, and after how long without
      a report other nodes take over its runs. The timeout must be at least twice the interval.
    - ``reaper_interval``: how often the node looks for runs of dead nodes.
    - ``metrics``: a registry of ``prometheus_client`` that gets the metrics of a server, such as ``REGISTRY``.
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
        heartbeat_interval: Duration = 10,
        heartbeat_timeout: Duration = 30,
        reaper_interval: Duration = 5,
        metrics: "CollectorRegistry | None" = None,
        defaults: Mapping[str, Any] | None = None,
        allow_private: bool = False,
        allow_hosts: Sequence[str] = (),
    ) -> None:
        check_app_options(namespace=namespace, owner=owner, timezone=timezone, node_name=node_name)
        options = build_engine_options(
            node_name=node_name,
            slots=slots,
            queues=queues,
            labels=labels,
            grace=grace,
            timeout_grace=timeout_grace,
            heartbeat_interval=heartbeat_interval,
            heartbeat_timeout=heartbeat_timeout,
            reaper_interval=reaper_interval,
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
                allow_hosts=check_texts(allow_hosts, "allow_hosts"),
                advice=_PRIVATE_ADDRESS_ADVICE,
            ),
            timezone=timezone,
            metrics=metrics,
        )
        self._home = self._runtime.home
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
                settings = {**options, "payload": to_json_payload(name, function, options.get("payload"))}
                self._declare(name, target, settings, {name: make_function_ref(function, options)})
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

    def python(self, name: str, function: str | Callable[..., Any], **options: Unpack[JobOptions]) -> JobHandle:
        """Declare a job that calls a function of this program, or of another one by the name that it has there.

        Takes the keywords of ``job`` except ``name``, ``isolation`` and ``limits``.

        Returns a ``JobHandle``. Raises as ``job`` does.

        Example::

            app.python("add-small", add, every="10s", payload={"a": 1, "b": 2})
            app.python("billing", "shop.send_bills", cron="0 6 1 * *")
        """
        with prefix_errors(f"job {name}"):
            check_keywords(options, JobOptions)
            function_name, refs = self._runtime.declared.to_function_name(function)
            settings = dict(options)
            if callable(function):
                settings["payload"] = to_json_payload(function_name, function, options.get("payload"))
            self._declare(name, build_python_target(function_name, {}), settings, refs)
        return self._keep_handle(self._handle_kind(self._runtime, name))

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
        shape = build_job_shape(options, timezone=self._runtime.timezone)
        after = read_after(options.get("after"), self._runtime.declared.to_job_name)
        return {**shape, **target, **after, **hooks}, refs

    def _keep_handle(self, handle: "Handle") -> "Handle":
        self._handles[handle.name] = handle
        return handle

    def _format_call(self, method: str) -> str:
        return f"app.{method}(…)"

    def __repr__(self) -> str:
        return f"<Chronos {hide_url_password(self._runtime.url)}>"


Handle = TypeVar("Handle", bound=JobHandle)
