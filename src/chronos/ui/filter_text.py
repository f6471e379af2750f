"""The text of a filter field: words and tokens such as ``tag:billing status:failing export``.

The whole state of a list is in this text, so that an address shows a colleague the same rows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

_MAX_CHARS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterText:
    """A filter as it was understood. ``faults`` are sentences about tokens that were ignored."""

    text: str
    words: str  # the words without a colon: part of a name
    tokens: Mapping[str, str]
    faults: tuple[str, ...] = ()

    def get(self, name: str) -> str | None:
        """Return the value of a token, or None."""
        return self.tokens.get(name)

    def with_token(self, name: str, value: str | None) -> str:
        """Return the text with another value of a token; None leaves it out."""
        kept = [part for part in self.text.split() if not part.startswith(f"{name}:")]
        return " ".join([*kept, f"{name}:{value}"] if value else kept)


def read_filter(
    text: str | None, known: Sequence[str], values: Mapping[str, Sequence[str]] | None = None
) -> FilterText:
    """Read a filter. ``values`` lists the allowed values of tokens that have only a few."""
    whole = (text or "").strip()[:_MAX_CHARS]
    words: list[str] = []
    tokens: dict[str, str] = {}
    faults: list[str] = []
    for part in whole.split():
        name, colon, value = part.partition(":")
        if not colon:
            words.append(part)
        elif name not in known:
            faults.append(f'"{part[:64]}" is not a filter{_suggest(f"{name}:", [f"{one}:" for one in known])}')
        elif not value:
            faults.append(f'"{name}:" needs a value.')
        elif values is not None and name in values and value not in values[name]:
            faults.append(f'{name} is "{value[:64]}"{_suggest(value, values[name])}')
        else:
            tokens[name] = value
    return FilterText(text=whole, words=" ".join(words), tokens=tokens, faults=tuple(faults))


def _suggest(text: str, known: Sequence[str]) -> str:
    near = get_close_matches(text, known, n=1)
    return f". Did you mean {near[0]}?" if near else f". Known: {', '.join(known)}."
