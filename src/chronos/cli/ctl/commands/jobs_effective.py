"""``chronosctl jobs effective``: every setting of a job, with its value and the level it came from."""

import json
from typing import TYPE_CHECKING, Any

import click

from chronos.cli.ctl.commands.jobs import jobs
from chronos.cli.ctl.options import job_argument, output_option, with_client
from chronos.cli.ctl.tables import print_value
from chronos.cli.output import emit_table, note

if TYPE_CHECKING:
    from collections.abc import Mapping

    from chronos.cli.ctl.client import ApiClient

_NOT_SETTINGS = ("tasks", "versions")


@jobs.command(short_help="Show the settings of a job and where each comes from.")
@job_argument
@click.option("--set", "only_set", is_flag=True, help="Leave out what no level sets.")
@output_option
@with_client
def effective(client: "ApiClient", output: str, name: str, only_set: bool) -> None:
    """Show every setting of the job NAME with its value and its level: default, server, namespace, job or task.

    \b
    Examples:
      chronosctl jobs effective hello
      chronosctl jobs effective hello --set
    """
    settings = client.get("jobs", name, "effective", namespace=client.server.namespace)
    if output in ("json", "jsonl", "yaml"):
        print_value(settings, output)
        return
    rows = _to_rows("", {key: value for key, value in settings.items() if key not in _NOT_SETTINGS})
    for task, own in settings["tasks"].items():
        rows += [row for row in _to_rows(f"{task}: ", own) if row[2] == "task"]
    emit_table(("SETTING", "VALUE", "FROM"), [row for row in rows if not only_set or row[2] != "default"])
    numbers = settings["versions"]
    note(f"job v{numbers['job']}, defaults {numbers['defaults']}, namespace settings {numbers['namespace']}")


def _to_rows(prefix: str, settings: "Mapping[str, Any]") -> list[tuple[str, str, str]]:
    rows: list[tuple[str, str, str]] = []
    for name, setting in settings.items():
        if "fields" not in setting:
            rows.append((f"{prefix}{name}", _format(setting["value"]), setting["from"]))
            continue
        rows += [
            (f"{prefix}{name}.{field}", _format(setting["value"].get(field)), level)
            for field, level in setting["fields"].items()
        ]
    return rows


def _format(value: Any) -> str:
    if value is None or value in ({}, []):
        return "-"
    return value if isinstance(value, str) else json.dumps(value)
