"""The part of an app that reports events: to callbacks, and as a stream."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from chronos.errors import Invalid
from chronos.sdk.event_stream import EventStream, StoreEventStream
from chronos.sdk.events import AttemptFinished, InstantsMissed, JobEvent, RunEnded, RunStarted, select_events

if TYPE_CHECKING:
    from chronos.sdk.runtime import Runtime

E = TypeVar("E", bound=JobEvent)
Callback = Callable[[E], object]  # a function, or an async function
Remove = Callable[[], None]
StartCallback = TypeVar("StartCallback", bound=Callback[RunStarted])
AttemptCallback = TypeVar("AttemptCallback", bound=Callback[AttemptFinished])
EndCallback = TypeVar("EndCallback", bound=Callback[RunEnded])
MissedCallback = TypeVar("MissedCallback", bound=Callback[InstantsMissed])
EndName = Literal["success", "failure", "completion", "skip"]


class AppEvents:
    """Methods of an app that report what happens to its jobs."""

    _runtime: "Runtime"

    @overload
    def on(self, event: type[E], callback: Callback[E]) -> Remove: ...

    @overload
    def on(self, event: Literal["start"], callback: Callback[RunStarted]) -> Remove: ...

    @overload
    def on(self, event: Literal["attempt"], callback: Callback[AttemptFinished]) -> Remove: ...

    @overload
    def on(self, event: EndName, callback: Callback[RunEnded]) -> Remove: ...

    @overload
    def on(self, event: Literal["missed"], callback: Callback[InstantsMissed]) -> Remove: ...

    @overload
    def on(self, event: type[E]) -> Callable[[Callback[E]], Callback[E]]: ...

    @overload
    def on(self, event: Literal["start"]) -> Callable[[StartCallback], StartCallback]: ...

    @overload
    def on(self, event: Literal["attempt"]) -> Callable[[AttemptCallback], AttemptCallback]: ...

    @overload
    def on(self, event: EndName) -> Callable[[EndCallback], EndCallback]: ...

    @overload
    def on(self, event: Literal["missed"]) -> Callable[[MissedCallback], MissedCallback]: ...

    def on(self, event: Any, callback: Any = None) -> Any:
        """Call a function with the events of all jobs of the namespace that this program runs.

        - ``event``: ``RunStarted``, ``AttemptFinished``, ``RunEnded`` or ``InstantsMissed``; or a name: ``"start"``,
          ``"attempt"``, ``"success"``, ``"failure"``, ``"completion"``, ``"skip"`` or ``"missed"``.
        - ``callback``: a function or async function that receives the event. Sync functions run in a thread, one call
          at a time. An exception is logged.

        Returns a function that removes the callback. Without ``callback`` it is a decorator. Raises ``Invalid`` for an
        unknown event.

        Example::

            @app.on("failure")
            def alert(event: RunEnded) -> None:
                print(event.job, event.message)
        """
        selection, callbacks = select_events(event), self._runtime.callbacks
        if callback is not None:
            if not callable(callback):
                raise Invalid(f"the callback is {callback!r}; use a function that takes the event")
            return callbacks.add(selection, callback)

        def add(function: Callable[[Any], object]) -> Callable[[Any], object]:
            callbacks.add(selection, function)
            return function

        return add

    def events(self, after: str | None = None) -> EventStream:
        """Iterate over runs that ended and spans that were recorded in the namespace, on any node.

        - ``after``: the ``position`` of an earlier stream, to continue there; by default the stream begins when it is
          opened.

        Returns an iterator and async iterator of ``RunEnded`` and ``SpanRecorded``. Raises ``Invalid`` for a wrong
        position.
        """
        return StoreEventStream(self._runtime, after)
