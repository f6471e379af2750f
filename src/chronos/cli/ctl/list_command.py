"""The verb ``list``, and groups whose default verb is ``list``.

``chronosctl nodes`` means ``chronosctl nodes list``; both take the same options.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from chronos.cli.ctl.options import Command, output_option, with_client
from chronos.cli.ctl.tables import Columns
from chronos.cli.ctl.watch import show_list

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from chronos.cli.ctl.client import ApiClient

VERB = "list"

Options = Sequence[Callable[[Command], Command]]


def list_command(
    help_text: str, columns: Columns, *, path: str, example: str, short_help: str | None = None, options: Options = ()
) -> click.Command:
    """Build the verb ``list``, which prints the list at a path of the API.

    A list with ``limit_option`` belongs to the namespace and is read page by page.
    """

    @with_client
    def list_(
        client: "ApiClient",
        output: str,
        limit: int | None = None,
        everything: bool = False,
        every_s: float | None = None,
    ) -> None:
        def fetch() -> Any:
            if limit is None:
                return client.get(path)
            query = {"namespace": client.server.namespace}
            return client.list_pages(path, limit=None if everything else limit, query=query)

        show_list(fetch, output, columns, every_s)

    for option in (output_option, *reversed(options)):
        list_ = option(list_)
    return click.command(VERB, help=_help(help_text, example), short_help=short_help or help_text)(list_)


class Listing(click.Group):
    """A group whose default verb is ``list``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        is_help = args[:1] and args[0] in ctx.help_option_names
        has_no_verb = args[0].startswith("-") if args else not ctx.resilient_parsing  # a shell completes the verb, too
        return super().parse_args(ctx, [VERB, *args] if has_no_verb and not is_help else args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem[Any]]":
        """Complete the verbs, and the options of the default verb."""
        items = super().shell_complete(ctx, incomplete)
        known = {item.value for item in items}
        options = self.commands[VERB].shell_complete(ctx, incomplete) if incomplete.startswith("-") else []
        return items + [item for item in options if item.value not in known]


def make_listing(
    name: str,
    help_text: str,
    columns: Columns,
    *,
    list_text: str,
    short_help: str,
    list_help: str | None = None,
    path: str | None = None,
    example_options: str = "",
    options: Options = (),
) -> Listing:
    """Build a group with the verb ``list``. ``example_options`` follow the command in the examples of the help."""
    group_help = _help(f"{help_text} The default command is list.", f"{name}{example_options}")
    noun = Listing(name, help=group_help, short_help=short_help)
    example, short_help = f"{name} {VERB}{example_options}", list_help or short_help
    noun.add_command(
        list_command(list_text, columns, path=path or name, example=example, short_help=short_help, options=options)
    )
    return noun


def _help(text: str, example: str) -> str:
    return f"{text}\n\n\b\nExample:\n  chronosctl {example}"
