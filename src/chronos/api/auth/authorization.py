"""Checks whether the principal of a request may call its route, in the namespace of the job or execution."""

from chronos.api.auth.permissions import Permission
from chronos.api.handlers.executions import read_execution_id
from chronos.api.request import RequestContext, make_forbidden
from chronos.api.routing import V1, Scope
from chronos.core.job import DEFAULT_NAMESPACE
from chronos.errors import NotFound
from chronos.service.serializers.identifiers import find_name_fault, read_id
from chronos.store.contract import ExecutionView


async def authorize(context: RequestContext) -> None:
    """Raise unless the principal may call the route. Looks up the job or execution of the path."""
    principal, permission = context.principal, context.route.permission
    match context.route.scope:
        case Scope.ANYWHERE | Scope.BODY:
            _require_somewhere(context)
        case Scope.EVERYWHERE:
            if not principal.may(permission):
                raise make_forbidden(principal, permission, everywhere=True)
        case Scope.SEEN:
            _require_somewhere(context)
            if context.requested_namespace is not None:
                context.require(context.requested_namespace)
        case Scope.JOB:
            context.found_job = await context.find_job(context.path("ref"))
            context.require(context.found_job.namespace)
        case Scope.EXECUTION:
            context.found_view = await _find_execution(context)


def _require_somewhere(context: RequestContext) -> None:
    principal, permission = context.principal, context.route.permission
    if not principal.may_somewhere(permission):
        has_namespace = any(param.name == "namespace" for param in context.route.query)
        named = has_namespace and context.text("namespace") != "*" and principal.sees(context.namespace)
        raise make_forbidden(principal, permission, context.namespace if named else None)


async def _find_execution(context: RequestContext) -> ExecutionView:
    """Return the execution of the path, if the principal may see the namespace of its job, which may be deleted."""
    text = context.path("id")
    if read_id(text) is None:
        await _hint_at_job(context, text)
    view = await context.api.service.runs.get(read_execution_id(text))
    if context.principal.may(context.route.permission):
        return view
    job = (await context.api.store.names_of([view.execution.job])).get(view.execution.job)
    namespace = None if job is None else job.namespace
    if not (context.principal.may(Permission.VIEW) if namespace is None else context.principal.sees(namespace)):
        raise NotFound(f'execution "{text[:200]}" not found')
    if namespace is None:
        raise make_forbidden(context.principal, context.route.permission, everywhere=True)
    context.require(namespace)
    return view


async def _hint_at_job(context: RequestContext, name: str) -> None:
    """Raise ``NotFound`` with a hint if the id of an execution is the name of a job."""
    namespace = DEFAULT_NAMESPACE
    if find_name_fault(name) is not None or not context.principal.sees(namespace):
        return
    if await context.api.store.job_named(namespace, name) is not None:
        raise NotFound(
            f'"{name}" is a job, not an execution; use the id of one of its executions, which '
            f"GET {context.api.options.base_path}{V1}/jobs/{name}/executions lists"
        )
