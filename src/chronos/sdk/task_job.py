"""``@app.task``: functions that a program calls in the background."""

from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Protocol, TypeVar, overload

from chronos.errors import Invalid
from chronos.runners.python.function_registry import inspect_function
from chronos.sdk.caller_transaction import run_statement, run_statement_async
from chronos.sdk.declarations import unwrap_function
from chronos.sdk.home_loop import on_home_loop
from chronos.sdk.job import Job
from chronos.sdk.job_options import Duration, Instant, StartOptions, build_start_options
from chronos.sdk.run_handle import TypedRun, read_execution_id
from chronos.store.enqueued_items import EnqueuesInTransactions, Statement

if TYPE_CHECKING:
    from chronos.sdk.runtime import Runtime

P = ParamSpec("P")
C_co = TypeVar("C_co", covariant=True)  # what a call returns: for an async function, a coroutine
R = TypeVar("R")  # the result of a run
_OPTION_NAMES = ("delay", "at", "expires", "key", "connection")


class TaskJob(Job[P, C_co], Generic[P, C_co, R]):
    """A function that a program calls in the background, from ``@app.task``.

    It is a job without a schedule whose runs may overlap. Calling it calls the function, without Chronos.

    Example::

        @app.task
        def send_mail(to: str) -> int: ...

        run = send_mail.enqueue("ana@example.com", delay="10m")
        print(run.result(timeout="1h"))
    """

    def __init__(self, runtime: "Runtime", name: str, function: Callable[P, C_co]) -> None:
        super().__init__(runtime, name, function)
        self._read_signature()

    def _read_signature(self) -> None:
        signature = inspect_function(self.name, self.function)
        self._parameters = signature.parameter_names
        self._converter = signature.result_converter

    async def aenqueue(
        self,
        *args: Any,
        delay: Duration | None = None,
        at: Instant | None = None,
        expires: Duration | Instant | None = None,
        key: str | None = None,
        connection: Any = None,
        **parameters: Any,
    ) -> TypedRun[R]:
        """Call the function in the background, with these arguments.

        - ``delay``: how long the run waits before it starts.
        - ``at``: when it starts. Use ``delay`` or ``at``.
        - ``expires``: an instant, or a duration from now on. A run that has not started by then is skipped.
        - ``key``: an idempotency key. Calls with the same key return the same run.
        - ``connection``: the program's own connection to the PostgreSQL database of the store. The run exists if and
          only if the transaction that is open on it commits.

        Returns a run whose ``result`` has the type that the function returns. Raises ``Invalid`` for arguments that do
        not fit the function, and ``Unavailable`` when too many runs are queued.
        """
        payload = self._to_payload(args, parameters)
        if connection is None:
            build_start_options(delay, at, expires)  # an error names the options of this method
            run = await self.atrigger(payload, at=at, in_=delay, expires=expires, key=key)
            return self._make_run(read_execution_id(run.id))
        _check_no_key(key)
        [run] = await self.aenqueue_many([payload], delay=delay, at=at, expires=expires, connection=connection)
        return run

    async def aenqueue_many(
        self,
        payloads: Iterable[Mapping[str, Any]],
        *,
        delay: Duration | None = None,
        at: Instant | None = None,
        expires: Duration | Instant | None = None,
        connection: Any = None,
    ) -> list[TypedRun[R]]:
        """Call the function in the background, once for each object of arguments.

        Up to 500 runs are created together or not at all, and at most 10,000 per call. The options are those of
        ``enqueue``.

        Returns the runs, in order. Raises as ``enqueue`` does.

        Example::

            send_mail.enqueue_many([{"to": "ana@example.com"}, {"to": "ben@example.com"}])
        """
        stored, options = self._check_payloads(payloads), build_start_options(delay, at, expires)
        if connection is None:
            return [self._make_run(id_) for id_ in await self._create_runs(stored, options)]
        ids, statements = await self._prepare(stored, options)
        for statement in statements:
            await run_statement_async(connection, statement)
        return [self._make_run(id_, is_pending=True) for id_ in ids]

    def enqueue(
        self,
        *args: Any,
        delay: Duration | None = None,
        at: Instant | None = None,
        expires: Duration | Instant | None = None,
        key: str | None = None,
        connection: Any = None,
        **parameters: Any,
    ) -> TypedRun[R]:
        """Call the function in the background, with these arguments. See ``aenqueue``."""
        if connection is None:
            return self._home.run_blocking(
                lambda: self.aenqueue(*args, delay=delay, at=at, expires=expires, key=key, **parameters),
                self._format_call("aenqueue"),
            )
        _check_no_key(key)
        payloads = self._check_payloads([self._to_payload(args, parameters)])
        [run] = self._enqueue_on(connection, payloads, build_start_options(delay, at, expires), "aenqueue")
        return run

    def enqueue_many(
        self,
        payloads: Iterable[Mapping[str, Any]],
        *,
        delay: Duration | None = None,
        at: Instant | None = None,
        expires: Duration | Instant | None = None,
        connection: Any = None,
    ) -> list[TypedRun[R]]:
        """Call the function in the background, once for each object of arguments. See ``aenqueue_many``."""
        stored, options = self._check_payloads(payloads), build_start_options(delay, at, expires)
        if connection is not None:
            return self._enqueue_on(connection, stored, options, "aenqueue_many")
        ids = self._home.run_blocking(lambda: self._create_runs(stored, options), self._format_call("aenqueue_many"))
        return [self._make_run(id_) for id_ in ids]

    def _enqueue_on(
        self, connection: Any, payloads: Sequence[Any], options: StartOptions, async_method: str
    ) -> list[TypedRun[R]]:
        """Enqueue runs in the transaction of a connection that blocks."""
        ids, statements = self._home.run_blocking(
            lambda: self._prepare(payloads, options), self._format_call(async_method)
        )
        for statement in statements:
            run_statement(connection, statement)
        return [self._make_run(id_, is_pending=True) for id_ in ids]

    @on_home_loop
    async def _create_runs(self, payloads: Sequence[Any], options: StartOptions) -> list[bytes]:
        """Create one run per payload. Returns their ids."""
        session = await self._runtime.session()
        created = await session.service.enqueues.run(self.name, payloads, namespace=self._runtime.namespace, **options)
        await session.wake_delayed(created)
        return [run.id for run in created]

    @on_home_loop
    async def _prepare(self, payloads: Sequence[Any], options: StartOptions) -> tuple[list[bytes], list[Statement]]:
        """Build the statements that enqueue runs in the caller's transaction."""
        session = await self._runtime.session()
        store = session.store
        if not isinstance(store, EnqueuesInTransactions):
            raise Invalid("connection needs a store on PostgreSQL, whose database the program uses too; leave it out")
        request = await session.service.enqueues.prepare(
            self.name, payloads, namespace=self._runtime.namespace, **options
        )
        statements = [store.enqueue_statement(command) for command in request.to_commands()]
        return [run.id for run in request.runs], statements

    def _to_payload(self, args: Sequence[Any], parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Name the arguments of a call. Raises ``Invalid``."""
        if len(args) > len(self._parameters):
            count = len(self._parameters)
            raise Invalid(f"{self.name} takes {count} arguments by position, but {len(args)} are given")
        payload = dict(zip(self._parameters, args, strict=False))
        if twice := payload.keys() & parameters.keys():
            raise Invalid(f'{self.name} gets "{min(twice)}" twice, by position and by name; use one of them')
        return {**payload, **parameters}

    def _check_payloads(self, payloads: Iterable[Mapping[str, Any]]) -> list[Any]:
        """Return payloads as JSON. Raises ``Invalid``."""
        if isinstance(payloads, Mapping | str) or not isinstance(payloads, Iterable):
            raise Invalid(f'enqueue_many got {payloads!r}; use a list of objects, like [{{"to": "ana"}}]')
        return [self._runtime.declared.to_checked_payload(self.name, payload) for payload in payloads]

    def _make_run(self, execution: bytes, *, is_pending: bool = False) -> TypedRun[R]:
        run: TypedRun[R] = TypedRun(self._runtime, execution, self.name)
        run._converter, run._is_pending = self._converter, is_pending
        return run


class TaskDecorator(Protocol):
    """The decorator that ``app.task(keyword=…)`` returns: it makes a function a ``TaskJob``."""

    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> TaskJob[P, Coroutine[Any, Any, R], R]: ...

    @overload
    def __call__(self, function: Callable[P, R], /) -> TaskJob[P, R, R]: ...


def check_task_parameters(name: str, function: Callable[..., Any]) -> None:
    """Raise ``Invalid`` for a function whose parameters ``enqueue`` could not pass."""
    for parameter in inspect_function(name, unwrap_function(function)).parameter_names:
        if parameter in _OPTION_NAMES:
            raise Invalid(f'the parameter "{parameter}" has the name of an option of enqueue; rename it')


def _check_no_key(key: str | None) -> None:
    if key is not None:
        raise Invalid("key and connection are given, and a transaction commits once; leave key out")
