"""Looking again and again: at a list or one thing, until it is interrupted; at one run, until it is over."""

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
_RECONNECT_PAUSES_S = (0.2, 0.5, 1.0, 2.0, 5.0)  # pauses while the server is away
_CLEAR = "\x1b[H\x1b[2J\x1b[3J"


def show_list(fetch: Callable[[], dict[str, Any]], output: str, columns: Columns, every_s: float | None) -> None:
    """Show a list once; with ``every_s`` over and over: as a whole on a terminal, else what is new or has changed.

    Into a pipe that is JSON lines; another format is printed only where it was asked for.
    """
    if every_s is None:
        print_page(fetch(), output, columns)
        return
    fetch = _retry_unreachable(fetch)
    drawn, form = _choose_format(output)
    seen: dict[str, Any] = {}
    headed = True
    while True:
        page = fetch()
        if drawn:
            sys.stdout.write(_CLEAR)
            print_page(page, output, columns)
        else:
            named = {columns.name_of(item): item for item in reversed(page["items"])}
            news = [item for name, item in named.items() if seen.get(name) != item]
            if news:
                _print_changes(news, form, columns, headed=headed)
                headed = False
            seen = named
        sys.stdout.flush()
        time.sleep(every_s)


def show_value(
    fetch: Callable[[], dict[str, Any]], show: Callable[[dict[str, Any], str], None], output: str, every_s: float | None
) -> None:
    """The same of one thing: redrawn on a terminal, else shown again whenever it has changed."""
    if every_s is None:
        show(fetch(), output)
        return
    fetch = _retry_unreachable(fetch)
    drawn, form = _choose_format(output)
    seen: dict[str, Any] | None = None
    while True:
        found = fetch()
        if drawn:
            sys.stdout.write(_CLEAR)
            show(found, output)
        elif found != seen:
            if form == "yaml":
                emit("---")
            show(found, form)
            seen = found
        sys.stdout.flush()
        time.sleep(every_s)


def _choose_format(output: str) -> tuple[bool, str]:
    """Whether it is drawn, and in which format it is printed where it is not."""
    drawn = sys.stdout is not None and sys.stdout.isatty() and output in ("table", "wide")
    source = click.get_current_context().get_parameter_source("output")
    return drawn, "jsonl" if output == "json" or source is ParameterSource.DEFAULT else output


def _print_changes(items: list[dict[str, Any]], form: str, columns: Columns, *, headed: bool) -> None:
    if form == "jsonl":
        emit_json(items, lines=True)
    elif form == "yaml":
        for item in items:
            emit("---\n" + to_yaml(item).rstrip("\n"))
    else:
        print_items(items, form, columns, headed=headed)


def wait_for_end(client: "ApiClient", execution: str, *, timeout_s: float | None = None) -> dict[str, Any]:
    """The execution when it is over. A server that is away for a moment is waited for, too."""
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    pause_s = _MIN_PAUSE_S
    fetch = _retry_unreachable(lambda: client.get("executions", execution))
    while True:
        found = fetch()
        if found["status"] in FINAL:
            return found
        if deadline is not None and time.monotonic() >= deadline:
            raise CommandFailure(
                f"{execution} is not over after {timeout_s:g} s; it goes on\n  chronosctl executions get {execution}"
            )
        time.sleep(pause_s)
        pause_s = min(pause_s * 1.5, _MAX_PAUSE_S)


def _retry_unreachable(fetch: Callable[[], dict[str, Any]]) -> Callable[[], dict[str, Any]]:
    """The same, of a server that may be away for a moment while one waits. The first look is not patient."""
    seen: list[bool] = []

    def again() -> dict[str, Any]:
        for pause_s in _RECONNECT_PAUSES_S if seen else ():
            try:
                return fetch()
            except Unreachable:
                time.sleep(pause_s)
        found = fetch()
        seen[:] = [True]
        return found

    return again


def raise_unless_succeeded(found: Mapping[str, Any]) -> None:
    """End as the run did: well, or with exit code 6 and what was wrong."""
    if found["status"] == "succeeded":
        return
    reason = found.get("reason") or {}
    said = [f"{found.get('job_name') or found['id']} {found['status'].replace('_', ' ')}: {reason.get('message', '')}"]
    said += [f"  {task['name']}: {task['error']}" for task in found.get("tasks", ()) if task.get("error")]
    said.append(f"  chronosctl executions logs {found['id']}")
    raise UnsuccessfulRun("\n".join(said))


def wait_and_print(client: "ApiClient", execution: str, output: str, *, timeout_s: float | None) -> None:
    """Wait for a run, print it, and end as it did."""
    from chronos.cli.ctl.commands.executions import print_execution

    if output == "table":
        note(f"waiting for {execution}")
    found = wait_for_end(client, execution, timeout_s=timeout_s)
    if output == "name":
        emit(found["id"])
    else:
        print_execution(found, output)
    raise_unless_succeeded(found)
