"""Repeated requests: ``--watch`` until the user interrupts it, ``--wait`` until a run ends."""

import sys
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from chronos.cli.ctl.errors import CommandFailure, Unreachable, UnsuccessfulRun
from chronos.cli.ctl.tables import Columns, print_items, print_page, to_yaml
from chronos.cli.output import emit, emit_json, note

if TYPE_CHECKING:
    from chronos.cli.ctl.client import ApiClient

FINAL = ("succeeded", "completed_with_errors", "failed", "canceled", "skipped", "missed", "stale")
_MIN_PAUSE_S = 0.05
_MAX_PAUSE_S = 2.0
_RECONNECT_PAUSES_S = (0.2, 0.5, 1.0, 2.0, 5.0)  # while the server is unreachable
_CLEAR = "\x1b[H\x1b[2J\x1b[3J"


def show_list(fetch: Callable[[], dict[str, Any]], output: str, columns: Columns, every_s: float | None) -> None:
    """Show a list once, or every ``every_s`` seconds.

    On a terminal the list is redrawn. A pipe receives only new and changed items, as JSON lines unless ``-o`` names
    another format.
    """
    if every_s is None:
        print_page(fetch(), output, columns)
        return
    fetch = _retry_unreachable(fetch)
    redraws, form = _choose_format(output)
    seen: dict[str, Any] = {}
    headed = True
    while True:
        page = fetch()
        if redraws:
            sys.stdout.write(_CLEAR)
            print_page(page, output, columns)
        else:
            items = {columns.name_of(item): item for item in reversed(page["items"])}
            changes = [item for name, item in items.items() if seen.get(name) != item]
            if changes:
                _print_changes(changes, form, columns, headed=headed)
                headed = False
            seen = items
        sys.stdout.flush()
        time.sleep(every_s)


def show_value(
    fetch: Callable[[], dict[str, Any]], show: Callable[[dict[str, Any], str], None], output: str, every_s: float | None
) -> None:
    """Show one value once, or every ``every_s`` seconds: redrawn on a terminal, else printed when it changes."""
    if every_s is None:
        show(fetch(), output)
        return
    fetch = _retry_unreachable(fetch)
    redraws, form = _choose_format(output)
    seen: dict[str, Any] | None = None
    while True:
        value = fetch()
        if redraws:
            sys.stdout.write(_CLEAR)
            show(value, output)
        elif value != seen:
            if form == "yaml":
                emit("---")
            show(value, form)
            seen = value
        sys.stdout.flush()
        time.sleep(every_s)


def _choose_format(output: str) -> tuple[bool, str]:
    """Return whether to redraw, and the format for a pipe."""
    redraws = sys.stdout is not None and sys.stdout.isatty() and output in ("table", "wide")
    source = click.get_current_context().get_parameter_source("output")
    return redraws, "jsonl" if output == "json" or source is ParameterSource.DEFAULT else output


def _print_changes(items: list[dict[str, Any]], form: str, columns: Columns, *, headed: bool) -> None:
    if form == "jsonl":
        emit_json(items, lines=True)
    elif form == "yaml":
        for item in items:
            emit("---\n" + to_yaml(item).rstrip("\n"))
    else:
        print_items(items, form, columns, headed=headed)


def wait_for_end(client: "ApiClient", execution: str, *, timeout_s: float | None = None) -> dict[str, Any]:
    """Wait until an execution ends and return it. A short absence of the server is tolerated."""
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    pause_s = _MIN_PAUSE_S
    fetch = _retry_unreachable(lambda: client.get("executions", execution))
    while True:
        run = fetch()
        if run["status"] in FINAL:
            return run
        if deadline is not None and time.monotonic() >= deadline:
            raise CommandFailure(
                f"{execution} has not ended after {timeout_s:g} s; it is still running\n"
                f"  chronosctl executions get {execution}"
            )
        time.sleep(pause_s)
        pause_s = min(pause_s * 1.5, _MAX_PAUSE_S)


def _retry_unreachable(fetch: Callable[[], dict[str, Any]]) -> Callable[[], dict[str, Any]]:
    """Wrap ``fetch`` so that it retries while the server is unreachable. The first call does not retry."""
    was_reached = False

    def fetch_again() -> dict[str, Any]:
        nonlocal was_reached
        for pause_s in _RECONNECT_PAUSES_S if was_reached else ():
            try:
                return fetch()
            except Unreachable:
                time.sleep(pause_s)
        value = fetch()
        was_reached = True
        return value

    return fetch_again


def raise_unless_succeeded(run: Mapping[str, Any]) -> None:
    """Raise ``UnsuccessfulRun`` (exit code 6) with the reason, unless the run succeeded."""
    if run["status"] == "succeeded":
        return
    reason = run.get("reason") or {}
    lines = [f"{run.get('job_name') or run['id']} {run['status'].replace('_', ' ')}: {reason.get('message', '')}"]
    lines += [f"  {task['name']}: {task['error']}" for task in run.get("tasks", ()) if task.get("error")]
    lines.append(f"  chronosctl executions logs {run['id']}")
    raise UnsuccessfulRun("\n".join(lines))


def wait_and_print(client: "ApiClient", execution: str, output: str, *, timeout_s: float | None) -> None:
    """Wait for a run and print it; for people also its output. Raises ``UnsuccessfulRun`` unless it succeeded."""
    from chronos.cli.ctl.commands.executions import print_execution, print_log

    if output == "table":
        note(f"waiting for {execution}")
    run = wait_for_end(client, execution, timeout_s=timeout_s)
    if output == "name":
        emit(run["id"])
    else:
        print_execution(run, output)
    if output in ("table", "wide") and (text := client.get_text("executions", run["id"], "log")):
        emit("\noutput", bold=True)
        print_log(text)
    raise_unless_succeeded(run)
