"""Lists: the verb ``list`` of a noun, and nouns that are mostly listed.

``chronosctl nodes`` is ``chronosctl nodes list``, options and all.
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
    says: str, columns: Columns, *, path: str, example: str, short_help: str | None = None, options: Options = ()
) -> click.Command:
    """The verb ``list``: prints what the server has at a path.

    A list with ``limit_option`` is one of the namespace, read page by page.
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
            return client.pages(path, limit=None if everything else limit, query=query)

        show_list(fetch, output, columns, every_s)

    for option in (output_option, *reversed(options)):
        list_ = option(list_)
    return click.command(VERB, help=_help(says, example), short_help=short_help or says)(list_)


class Listing(click.Group):
    """A group whose verb may be left out."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        asks_for_help = args[:1] and args[0] in ctx.help_option_names
        verbless = args[0].startswith("-") if args else not ctx.resilient_parsing  # a shell completes the verb, too
        return super().parse_args(ctx, [VERB, *args] if verbless and not asks_for_help else args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem[Any]]":
        """Verbs, and the options of the one that may be left out."""
        found = super().shell_complete(ctx, incomplete)
        known = {item.value for item in found}
        listed = self.commands[VERB].shell_complete(ctx, incomplete) if incomplete.startswith("-") else []
        return found + [item for item in listed if item.value not in known]


def make_listing(
    name: str,
    says: str,
    columns: Columns,
    *,
    lists: str,
    short_help: str,
    list_help: str | None = None,
    path: str | None = None,
    said: str = "",
    options: Options = (),
) -> Listing:
    """A noun with the verb ``list``; ``said`` is what its examples say after that."""
    noun = Listing(name, help=_help(f"{says} Without a verb: list.", f"{name}{said}"), short_help=short_help)
    example, short_help = f"{name} {VERB}{said}", list_help or short_help
    noun.add_command(
        list_command(lists, columns, path=path or name, example=example, short_help=short_help, options=options)
    )
    return noun


def _help(says: str, example: str) -> str:
    return f"{says}\n\n\b\nExample:\n  chronosctl {example}"
