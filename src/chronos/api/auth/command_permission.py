"""The permission to save jobs that run commands, which is separate from the roles.

A command can do everything that the server's user can do on the machine, beyond the namespace of its job. Therefore the
admin of a namespace does not have this permission by default.
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
    """Raise unless the principal may save this job: the route's permission in its namespace, and commands if it has
    any.
    """
    context.require(draft.namespace)
    require_targets(context, draft.namespace, draft.spec)


def require_targets(context: RequestContext, namespace: str, spec: JobSpec) -> None:
    """Raise ``Forbidden`` if a job runs commands and the principal may not save such jobs."""
    if context.api.access.open or not any(target.kind == COMMAND for target in _targets(spec)):
        return
    authors = context.api.options.command_authors
    if not _is_author(context.principal, namespace, authors):
        needed = " or ".join(f"the {_AUTHORS[author]}" for author in CommandAuthor if author in authors)
        held = context.principal.describe_roles()
        raise Forbidden(
            f"saving a job that runs commands in {namespace} needs {needed or 'a role, but no role is allowed to'} "
            f"(dispatcher.command.roles); {context.principal.name} has {held}; use another target, or ask an admin"
        )


_AUTHORS = {
    CommandAuthor.ADMIN: "admin role in all namespaces",
    CommandAuthor.NAMESPACE_ADMIN: "admin role in the namespace",
}


def _is_author(principal: Principal, namespace: str, authors: frozenset[CommandAuthor]) -> bool:
    if CommandAuthor.ADMIN in authors and principal.may(Permission.ADMINISTER):
        return True
    return CommandAuthor.NAMESPACE_ADMIN in authors and principal.may(Permission.ADMINISTER, namespace)


def _targets(spec: JobSpec) -> Iterator[Target]:
    """Yield all targets of a job, including its hooks."""
    yield from (task.target for task in spec.tasks)
    yield from (hook for hook in (spec.on_start, spec.on_complete) if hook is not None)
