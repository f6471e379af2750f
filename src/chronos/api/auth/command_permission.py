"""Who may save jobs that run commands: a permission beside the roles.

A command can do on the machine what the server's user can, so it reaches beyond the namespace of its job. That is why
the admin of a namespace does not have this permission unless the configuration says so.
"""

from collections.abc import Iterator

from chronos.api.auth.permissions import Permission, Principal
from chronos.api.errors import Forbidden
from chronos.api.options import CommandAuthor
from chronos.api.request import RequestContext
from chronos.core.job import JobSpec, Target
from chronos.service.serializers import Draft

COMMAND = "command"


def require_save(context: RequestContext, draft: Draft) -> None:
    """Raise unless the caller may save this job: the route's permission in its namespace, and that to run commands."""
    context.require(draft.namespace)
    require_targets(context, draft.namespace, draft.spec)


def require_targets(context: RequestContext, namespace: str, spec: JobSpec) -> None:
    """Raise ``Forbidden`` where a job runs commands and the caller may not save such a job."""
    if context.api.access.open or not any(target.kind == COMMAND for target in _targets(spec)):
        return
    authors = context.api.options.command_authors
    if not _is_author(context.principal, namespace, authors):
        allowed = " and ".join(_AUTHORS[author] for author in CommandAuthor if author in authors) or "no one"
        raise Forbidden(
            f'{context.principal.name} may not save jobs that run commands in the namespace "{namespace}": '
            f"dispatcher.command.roles allows {allowed}; use another target, or ask for it"
        )


_AUTHORS = {
    CommandAuthor.ADMIN: "admins of all namespaces",
    CommandAuthor.NAMESPACE_ADMIN: "admins of the namespace",
}


def _is_author(principal: Principal, namespace: str, authors: frozenset[CommandAuthor]) -> bool:
    if CommandAuthor.ADMIN in authors and principal.may(Permission.ADMINISTER):
        return True
    return CommandAuthor.NAMESPACE_ADMIN in authors and principal.may(Permission.ADMINISTER, namespace)


def _targets(spec: JobSpec) -> Iterator[Target]:
    """All that a job runs, hooks included."""
    yield from (task.target for task in spec.tasks)
    yield from (hook for hook in (spec.on_start, spec.on_complete) if hook is not None)
