"""What is wrong with a target's options, gathered: whoever wrote them hears of everything at once, and where it is."""

from collections.abc import Callable, Collection, Iterator, Mapping
from difflib import get_close_matches
from typing import Any, ParamSpec, TypeVar

from chronos.errors import Invalid, InvalidOptions
from chronos.runners.options import describe_type, text, text_or_number
from chronos.runners.templates import check_template, is_template

P = ParamSpec("P")
T = TypeVar("T")

OptionPath = tuple[str | int, ...]

_MAX_DEPTH = 64


class OptionFaults:
    """The faults of one target, of which there are mostly none: looking for them costs little more than looking."""

    __slots__ = ("_found", "_target", "has_secrets")

    def __init__(self, target: str, *, has_secrets: bool = True) -> None:
        self._target = target
        self.has_secrets = has_secrets  # that a template could name
        self._found: list[tuple[OptionPath, str]] = []

    def note(self, way: OptionPath, message: str) -> None:
        """One thing that is wrong."""
        self._found.append((way, message))

    def of(self, way: OptionPath, read: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
        """What reading an option gives; None, and its fault is noted, if it cannot be read."""
        try:
            return read(*args, **kwargs)
        except InvalidOptions as error:
            self._found += [((*way, *within), message) for within, message in error.faults]
        except Invalid as error:
            self._found.append((way, str(error)))
        return None

    def has_fault(self, *way: str | int) -> bool:
        """Whether something is wrong there, or within."""
        return any(found[: len(way)] == way for found, _ in self._found)

    def note_unknown_options(self, way: OptionPath, options: Any, known: Collection[str]) -> bool:
        """Note each option that the target does not know. False: they are no options at all."""
        if not isinstance(options, Mapping):
            self.note(way, f"{self.where(way)} must be an object of options, got {describe_type(options)}")
            return False
        for name in options:
            if name not in known:
                near = get_close_matches(str(name), known, n=1, cutoff=0.5)
                hint = f'did you mean "{near[0]}"?' if near else f"known: {', '.join(sorted(known))}"
                self.note((*way, str(name)), f'{self.where(way)} has no option "{str(name)[:80]}"; {hint}')
        return True

    def texts(self, option: str, value: Any, *, most: int = 1_000) -> Iterator[tuple[str, str]]:
        """The entries of an object of texts, without those that are none; numbers are taken as they are written."""
        where = f"{self._target}.{option}"
        if not isinstance(value, Mapping):
            self.note((option,), f"{where} must be an object of texts, got {describe_type(value)}")
            return
        if len(value) > most:
            self.note((option,), f"{where} has {len(value)} entries, allowed {most}")
            return
        for name, item in value.items():
            try:
                named, found = text(f"a name in {where}", name), text_or_number(f"{where}.{name}", item)
            except Invalid as error:
                self.note((option, str(name)), str(error))
            else:
                yield named, found

    def note_bad_templates(self, way: OptionPath, value: Any, *, secrets: bool = True) -> None:
        """Note each text, anywhere in a value, with a placeholder that could never be replaced."""
        if isinstance(value, str):
            if is_template(value):
                where, known = self.where(way), self.has_secrets
                self.of(way, check_template, where, value, secrets=secrets, has_secrets=known)
        elif len(way) > _MAX_DEPTH:
            self.note(way, f"{self.where(way[:1])} is nested more than {_MAX_DEPTH} deep")
        elif isinstance(value, Mapping):
            for key, item in value.items():
                self.note_bad_templates((*way, str(key)), item, secrets=secrets)
        elif isinstance(value, list | tuple):
            for index, item in enumerate(value):
                self.note_bad_templates((*way, index), item, secrets=secrets)

    def where(self, way: OptionPath) -> str:
        """An option as messages call it: ``http.headers.Accept``, ``command.argv[0]``."""
        return self._target + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in way)

    def close(self) -> None:
        """Raise ``InvalidOptions`` if anything is wrong."""
        if self._found:
            raise InvalidOptions(self._found)
