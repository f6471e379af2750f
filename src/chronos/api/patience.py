"""How long a request may take: one timer for all of them.

All have the same time, so that whoever came first is the first to be late. Nearly every request is answered long
before: what counts is how little it costs to begin and to end. It means what ``asyncio.timeout`` means.
"""

import asyncio


class Wait:
    """One request, from its beginning to its end."""

    __slots__ = ("_cancelling", "_is_late", "ends_s", "task")

    def __init__(self, task: "asyncio.Task[object]", ends_s: float) -> None:
        self.task, self.ends_s = task, ends_s
        self._cancelling = task.cancelling()
        self._is_late = False

    def cancel(self) -> None:
        """Its time is over."""
        self._is_late = True
        self.task.cancel()

    def is_over(self) -> bool:
        """Whether its time is why it was cancelled, and the only reason. Asked once: then it is not any more."""
        if not self._is_late:
            return False
        self._is_late = False
        return self.task.uncancel() <= self._cancelling


class Patience:
    """Cancels the tasks of requests that take too long."""

    def __init__(self, limit_s: float) -> None:
        self.limit_s = limit_s
        self._waits: dict[Wait, None] = {}  # whoever is late first stands first
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> Wait:
        """The task that runs now is cancelled in time, unless it is ended before."""
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        wait = Wait(task, loop.time() + self.limit_s)
        self._waits[wait] = None
        if self._timer is None:
            self._timer = loop.call_at(wait.ends_s, self._come)
        return wait

    def end(self, wait: Wait) -> None:
        """It is over, in whatever way."""
        if self._waits.pop(wait, wait) is wait:  # it was late
            wait.is_over()

    def _come(self) -> None:
        loop = asyncio.get_running_loop()
        now_s, self._timer = loop.time(), None
        while self._waits:
            wait = next(iter(self._waits))
            if wait.ends_s > now_s:
                self._timer = loop.call_at(wait.ends_s, self._come)
                return
            del self._waits[wait]
            wait.cancel()
