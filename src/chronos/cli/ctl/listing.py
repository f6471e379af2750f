"""A noun that is mostly listed: ``chronosctl nodes`` is ``chronosctl nodes list``, options and all."""

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

VERB = "list"


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
