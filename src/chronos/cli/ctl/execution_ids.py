"""Ids of executions as people type them: in full, or as much of the beginning as is unique."""

import re
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from chronos.cli.ctl.client import ApiClient

_FULL = re.compile(r"[0-9a-f]{8}(-?)[0-9a-f]{4}\1[0-9a-f]{4}\1[0-9a-f]{4}\1[0-9a-f]{12}", re.ASCII | re.IGNORECASE)
_PART = re.compile(r"[0-9a-f][0-9a-f-]{3,34}", re.ASCII | re.IGNORECASE)
_MAX_SHOWN = 5


def is_full_id(text: str) -> bool:
    """Whether a text is a complete id. The name of a job never is."""
    return _FULL.fullmatch(text) is not None


def resolve_id(client: "ApiClient", text: str) -> str:
    """Return the id of the execution whose id starts with ``text``, or ``text`` if none does.

    Raises ``click.UsageError`` with the ids if there are several.
    """
    return find_id(client, text) or text


def find_id(client: "ApiClient", text: str) -> str | None:
    """Return the id that ``text`` is or begins, or None. Raises ``click.UsageError`` if it begins several ids."""
    if is_full_id(text):
        return text
    if not _PART.fullmatch(text):
        return None
    found = _list_matching(client, text, limit=_MAX_SHOWN + 1)
    if len(found) > 1:
        lines = [f"  {run['id']}  {run.get('job_name') or ''}  {run['status']}" for run in found[:_MAX_SHOWN]]
        lines += ["  …"] if len(found) > _MAX_SHOWN else []
        raise click.UsageError("\n".join([f'several executions start with "{text}"; type more of the id:', *lines]))
    return found[0]["id"] if found else None


def execution_argument(command: Any) -> Any:
    """The argument ID of an execution, with completion. The argument is called ``id_``."""
    return click.argument("id_", metavar="ID", shell_complete=complete_execution)(command)


def complete_execution(ctx: click.Context, _: click.Parameter, incomplete: str) -> "list[CompletionItem[Any]]":
    """Complete the id of an execution, if the server can be reached; newest first."""
    from click.shell_completion import CompletionItem

    from chronos.cli.ctl.options import MAX_COMPLETIONS, complete_from_server

    def fetch(client: "ApiClient") -> "list[CompletionItem[Any]]":
        found = _list_matching(client, incomplete, limit=MAX_COMPLETIONS)
        return [CompletionItem(run["id"], help=f"{run.get('job_name') or ''} {run['status']}") for run in found]

    return complete_from_server(ctx, fetch)


def _list_matching(client: "ApiClient", text: str, *, limit: int) -> list[dict[str, Any]]:
    query = {"id_prefix": text or None, "limit": limit, "namespace": client.server.namespace}
    items = client.call("GET", "executions", query=query).value["items"]
    return [item for item in items if item["kind"] == "execution"]
