"""Which jobs are meant: the same parameters list jobs and choose those that something is done to."""

from dataclasses import dataclass

from chronos.api.auth.permissions import Permission
from chronos.api.errors import Malformed
from chronos.api.request import RequestContext, make_forbidden
from chronos.api.routing import Param
from chronos.core.job import Job, JobState
from chronos.store.contract import JobFilter, Page

ALL_NAMESPACES = "*"
MAX_TAGS = 20
_PAGE = 1_000
_MAX_PAGES = 100  # that are looked through for jobs with further tags

Tag = tuple[str, str | None]  # key, and its value where that matters


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSelection:
    """What the store looks for, and the further tags that a job has to have as well."""

    where: JobFilter
    more_tags: tuple[Tag, ...] = ()

    @property
    def narrows(self) -> bool:
        """Whether it leaves anything out of the namespace."""
        return self.where != JobFilter(namespace=self.where.namespace)

    async def page(self, context: RequestContext, limit: int, cursor: bytes | None) -> Page[Job]:
        """Jobs by namespace and name; fewer than there is room for where some lack a further tag."""
        page = await context.api.service.jobs.list(self.where, limit=limit, cursor=cursor)
        return (
            Page(items=[job for job in page.items if self._has_more_tags(job)], cursor=page.cursor)
            if self.more_tags
            else page
        )

    async def all(self, context: RequestContext, limit: int) -> list[Job] | None:
        """Every job; None: they are more than this."""
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
        raise Malformed(
            f"more than {_MAX_PAGES * _PAGE:,} jobs would have to be looked through; name the rarest tag first"
        )

    def _has_more_tags(self, job: Job) -> bool:
        tags = job.spec.tags
        return all(key in tags and value in (None, tags[key]) for key, value in self.more_tags)


def read_selection(context: RequestContext, permission: Permission) -> JobSelection:
    """What the parameters say; the caller has to have the permission wherever they look."""
    tags = [_tag(text) for text in context.texts("tag") if text]
    if len(tags) > MAX_TAGS:
        raise Malformed(f'the parameter "tag" stands there {len(tags)} times, allowed {MAX_TAGS}')
    where = JobFilter(
        namespace=_namespace(context, permission),
        prefix=context.text("prefix") or "",
        contains=context.text("q") or "",
        tag=tags[0] if tags else None,
        state=_state(context.text("state")),
        owner=context.text("owner"),
    )
    return JobSelection(where=where, more_tags=tuple(tags[1:]))


def _namespace(context: RequestContext, permission: Permission) -> str | None:
    """Which namespace; a star stands for all of them."""
    if context.text("namespace") != ALL_NAMESPACES:
        context.require(context.namespace, permission)
        return context.namespace
    if not context.principal.may(permission):
        raise make_forbidden(context.principal, permission, "in all namespaces; name one of yours")
    return None


def _tag(text: str) -> Tag:
    """``key`` or ``key=value`` (also with a colon)."""
    for separator in "=:":
        key, jobs, value = text.partition(separator)
        if jobs:
            return key, value
    return text, None


def _state(text: str | None) -> JobState | None:
    if text is None:
        return None
    try:
        return JobState[text.upper()]
    except KeyError:
        allowed = ", ".join(state.name.lower() for state in JobState)
        raise Malformed(f'the state "{text[:64]}" is none of {allowed}') from None


SELECTION = (
    Param(name="q", description="text that is part of the name"),
    Param(name="prefix", description="text that the name begins with"),
    Param(
        name="tag",
        description="`key` or `key=value`; given many times, a job has to have all of them",
        schema={"type": "array", "items": {"type": "string"}, "maxItems": MAX_TAGS},
    ),
    Param(
        name="state",
        description="only those in this state",
        schema={"type": "string", "enum": [state.name.lower() for state in JobState]},
    ),
    Param(name="owner", description="only those that this owner applied"),
    Param(name="namespace", description='"default" without it; `*` is all of them'),
)
