"""Job selection: the parameters that list jobs also select the jobs of a bulk action."""

from dataclasses import dataclass

from chronos.api.auth.permissions import Permission
from chronos.api.errors import Malformed
from chronos.api.request import RequestContext, make_forbidden
from chronos.api.routing import Param
from chronos.core.job import Job, JobState
from chronos.errors import Invalid
from chronos.service.job_filter import Tag, has_tags, parse_state, parse_tag
from chronos.store.contract import JobFilter, Page

ALL_NAMESPACES = "*"
MAX_TAGS = 20
_PAGE = 1_000
_MAX_PAGES = 100  # that one request may search for jobs with several tags


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSelection:
    """The filter for the store, and further tags that a job must have."""

    where: JobFilter
    more_tags: tuple[Tag, ...] = ()

    @property
    def narrows(self) -> bool:
        """Whether the selection excludes any job of its namespace."""
        return self.where != JobFilter(namespace=self.where.namespace)

    async def page(self, context: RequestContext, limit: int, cursor: bytes | None) -> Page[Job]:
        """Return a page of jobs by namespace and name. It may be short if jobs lack a further tag."""
        page = await context.api.service.jobs.list(self.where, limit=limit, cursor=cursor)
        return (
            Page(items=[job for job in page.items if has_tags(job, self.more_tags)], cursor=page.cursor)
            if self.more_tags
            else page
        )

    async def all(self, context: RequestContext, limit: int) -> list[Job] | None:
        """Return every selected job, or None if there are more than ``limit``."""
        jobs: list[Job] = []
        cursor: bytes | None = None
        for _ in range(_MAX_PAGES):
            page = await self.page(context, min(_PAGE, limit + 1), cursor)
            jobs += page.items
            if len(jobs) > limit:
                return None
            if page.cursor is None:
                return jobs
            cursor = page.cursor
        raise Malformed(f"more than {_MAX_PAGES * _PAGE:,} jobs would have to be searched; put the rarest tag first")


def read_selection(context: RequestContext, permission: Permission) -> JobSelection:
    """Read the selection from the parameters. The caller needs the permission in the selected namespaces."""
    tags = [parse_tag(text) for text in context.texts("tag") if text]
    if len(tags) > MAX_TAGS:
        raise Malformed(f'parameter "tag" is given {len(tags)} times, allowed {MAX_TAGS}')
    where = JobFilter(
        namespace=_read_namespace(context, permission),
        prefix=context.text("prefix") or "",
        contains=context.text("q") or "",
        tag=tags[0] if tags else None,
        state=_read_state(context.text("state")),
        owner=context.text("owner"),
    )
    return JobSelection(where=where, more_tags=tuple(tags[1:]))


def _read_namespace(context: RequestContext, permission: Permission) -> str | None:
    """Return the selected namespace; None for ``*``, all namespaces."""
    if context.text("namespace") != ALL_NAMESPACES:
        context.require(context.namespace, permission)
        return context.namespace
    if not context.principal.may(permission):
        raise make_forbidden(context.principal, permission, everywhere=True)
    return None


def _read_state(text: str | None) -> JobState | None:
    try:
        return None if text is None else parse_state(text)
    except Invalid as error:
        raise Malformed(str(error)) from None


SELECTION = (
    Param(name="q", description="part of the name"),
    Param(name="prefix", description="the start of the name"),
    Param(
        name="tag",
        description="`key` or `key=value`; if repeated, a job must have all of them",
        schema={"type": "array", "items": {"type": "string"}, "maxItems": MAX_TAGS},
    ),
    Param(
        name="state",
        description="only jobs in this state",
        schema={"type": "string", "enum": [state.name.lower() for state in JobState]},
    ),
    Param(name="owner", description="only jobs of this owner"),
    Param(name="namespace", description='"default" if not given; `*` selects all namespaces'),
)
