"""The part of an app that looks at the jobs of its store: lists, finds, triggers, pauses and resumes them."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal

from chronos.errors import Invalid, NotFound
from chronos.sdk.home_loop import OnHomeLoop, blocking, on_home_loop
from chronos.sdk.info import JobInfo
from chronos.sdk.job import JobHandle
from chronos.sdk.job_options import Duration, Instant
from chronos.sdk.run_handle import Run, read_execution_id
from chronos.service.job_filter import Tag, has_tags, parse_state, parse_tag
from chronos.store.contract import JobFilter

if TYPE_CHECKING:
    from chronos.sdk.runtime import Runtime

JobRef = str | JobHandle | Callable[..., Any]  # a job by its name, its handle or its function
StateName = Literal["active", "paused", "disabled", "done"]
_PAGE_SIZE = 500
#: The beginning of the note of a job that ``app.pause`` paused. ``app.resume`` resumes only these.
_PAUSED_NOTE = "app paused"


class StoredJobs(OnHomeLoop):
    """Methods of an app that use the jobs of its store."""

    _runtime: "Runtime"
    _handles: dict[str, JobHandle]
    _handle_kind: type[JobHandle]

    def scheduled_jobs(self) -> list[JobHandle]:
        """The jobs that this program declares, as handles."""
        return [self._handles[name] for name in self._runtime.declared.jobs]

    @on_home_loop
    async def aall_jobs(
        self, *, tag: str | Sequence[str] | None = None, state: StateName | None = None
    ) -> list[JobInfo]:
        """List the jobs of the namespace, by name, including those of other programs.

        - ``tag``: only jobs with this tag: ``"key"`` or ``"key=value"``. Of several, a job must have all.
        - ``state``: only jobs in this state: ``"active"``, ``"paused"``, ``"disabled"`` or ``"done"``.

        Returns a ``JobInfo`` per job. Raises ``Invalid`` for an unknown state.

        Example::

            app.all_jobs(tag="team=billing", state="paused")
        """
        tags = read_tags(tag)
        session = await self._runtime.session()
        where = JobFilter(
            namespace=self._runtime.namespace,
            tag=tags[0] if tags else None,
            state=None if state is None else parse_state(check_state_name(state)),
        )
        jobs = [job async for job in session.iterate_jobs(where) if has_tags(job, tags[1:])]
        infos: list[JobInfo] = []
        for start in range(0, len(jobs), _PAGE_SIZE):
            infos += await session.read_job_infos(jobs[start : start + _PAGE_SIZE])
        return infos

    async def atrigger(
        self,
        job: JobRef,
        payload: Any = None,
        *,
        at: Instant | None = None,
        in_: Duration | None = None,
        expires: Duration | Instant | None = None,
        key: str | None = None,
    ) -> Run:
        """Run a job of the store once, now or later. Another program may have declared it.

        - ``job``: its name, its handle or its function.

        Other parameters, return value and errors are those of ``JobHandle.trigger``.
        """
        return await self.get(job).atrigger(payload, at=at, in_=in_, expires=expires, key=key)

    async def apause(self, reason: str = "") -> list[JobHandle]:
        """Pause every active job that this program declares, as ``JobHandle.pause`` does, until ``resume``.

        The pause is kept in the store: it outlasts the program, and other programs with the same jobs obey it.

        - ``reason``: a sentence that ``info().note`` shows.

        Returns the jobs that were paused.
        """
        note = f"{_PAUSED_NOTE}: {reason}" if reason else _PAUSED_NOTE
        paused: list[JobHandle] = []
        for job in self.scheduled_jobs():
            with suppress(NotFound):  # another program deleted it
                if (await job.ainfo()).state == "active":
                    await job.apause(note)
                    paused.append(job)
        return paused

    async def aresume(self) -> list[JobHandle]:
        """Resume the jobs that ``pause`` paused. Jobs that were paused one by one stay paused.

        Returns the jobs that were resumed.
        """
        resumed: list[JobHandle] = []
        for job in self.scheduled_jobs():
            with suppress(NotFound):
                info = await job.ainfo()
                if info.state == "paused" and info.note.startswith(_PAUSED_NOTE):
                    await job.aresume()
                    resumed.append(job)
        return resumed

    all_jobs = blocking(aall_jobs)
    trigger = blocking(atrigger)
    pause = blocking(apause)
    resume = blocking(aresume)

    def get(self, job: JobRef) -> JobHandle:
        """The handle of a job of the store, by its name or function. Another program may have declared it.

        Does not read the store: methods of the handle raise ``NotFound`` if the store lacks the job. Raises ``Invalid``
        for a function that is not a job.
        """
        name = self._runtime.declared.to_job_name(job)
        return self._handles.get(name) or self._handle_kind(self._runtime, name)

    def get_run(self, id: str) -> Run:
        """The handle of a run, by its id.

        Does not read the store: methods of the handle raise ``NotFound`` if the store lacks the run.
        Raises ``NotFound`` for text that is not an id.
        """
        return Run(self._runtime, read_execution_id(id), "")


def read_tags(tag: str | Sequence[str] | None) -> tuple[Tag, ...]:
    """Read a tag or several. Raises ``Invalid``."""
    texts = () if tag is None else (tag,) if isinstance(tag, str) else tag
    if not isinstance(texts, Sequence) or not all(isinstance(text, str) and text for text in texts):
        raise Invalid(f'tag is {tag!r}; use text like "team" or "team=billing", or a list of these')
    return tuple(parse_tag(text) for text in texts)


def check_state_name(state: str) -> str:
    """Return the name of a state. Raises ``Invalid``."""
    if not isinstance(state, str):
        raise Invalid(f'state is {state!r}; use text like "paused"')
    return state
