"""OptionFaults: collects everything that is wrong with a target's options, and where, to report it at once."""

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
    """The faults in the options of one target."""

    __slots__ = ("_faults", "_target", "has_secrets")

    def __init__(self, target: str, *, has_secrets: bool = True) -> None:
        self._target = target
        self.has_secrets = has_secrets  # whether templates may use secrets
        self._faults: list[tuple[OptionPath, str]] = []

    def add(self, path: OptionPath, message: str) -> None:
        """Add a fault."""
        self._faults.append((path, message))

    def try_read(self, path: OptionPath, read: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
        """Return the value that a reader returns. If it raises ``Invalid``, add the fault and return None."""
        try:
            return read(*args, **kwargs)
        except InvalidOptions as error:
            self._faults += [((*path, *within), message) for within, message in error.faults]
        except Invalid as error:
            self._faults.append((path, str(error)))
        return None

    def has_fault(self, *path: str | int) -> bool:
        """Whether there is a fault at this path or below it."""
        return any(fault_path[: len(path)] == path for fault_path, _ in self._faults)

    def add_unknown_options(self, path: OptionPath, options: Any, known: Collection[str]) -> bool:
        """Add a fault for each unknown option. Returns False if ``options`` is not an object."""
        if not isinstance(options, Mapping):
            self.add(path, f"{self.where(path)} must be an object of options, got {describe_type(options)}")
            return False
        for name in options:
            if name not in known:
                near = get_close_matches(str(name), known, n=1, cutoff=0.5)
                hint = f'did you mean "{near[0]}"?' if near else f"use one of {', '.join(sorted(known))}"
                self.add((*path, str(name)), f'{self.where(path)} has no option "{str(name)[:80]}"; {hint}')
        return True

    def read_texts(self, option: str, value: Any, *, limit: int = 1_000) -> Iterator[tuple[str, str]]:
        """Yield the entries of an object of texts. Numbers become text; invalid entries become faults."""
        where = f"{self._target}.{option}"
        if not isinstance(value, Mapping):
            self.add((option,), f"{where} must be an object with text values, got {describe_type(value)}")
            return
        if len(value) > limit:
            self.add((option,), f"{where} has {len(value)} entries, allowed {limit}")
            return
        for name, item in value.items():
            try:
                entry_name, entry_value = text(f"a name in {where}", name), text_or_number(f"{where}.{name}", item)
            except Invalid as error:
                self.add((option, str(name)), str(error))
            else:
                yield entry_name, entry_value

    def add_bad_templates(self, path: OptionPath, value: Any, *, secrets: bool = True) -> None:
        """Add a fault for each text within a value that has an invalid placeholder."""
        if isinstance(value, str):
            if is_template(value):
                where, has_secrets = self.where(path), self.has_secrets
                self.try_read(path, check_template, where, value, secrets=secrets, has_secrets=has_secrets)
        elif len(path) > _MAX_DEPTH:
            self.add(path, f"{self.where(path[:1])} is nested more than {_MAX_DEPTH} levels deep")
        elif isinstance(value, Mapping):
            for key, item in value.items():
                self.add_bad_templates((*path, str(key)), item, secrets=secrets)
        elif isinstance(value, list | tuple):
            for index, item in enumerate(value):
                self.add_bad_templates((*path, index), item, secrets=secrets)

    def where(self, path: OptionPath) -> str:
        """Return an option as messages name it: ``http.headers.Accept``, ``command.argv[0]``."""
        return self._target + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)

    def raise_if_any(self) -> None:
        """Raise ``InvalidOptions`` if there are faults."""
        if self._faults:
            raise InvalidOptions(self._faults)
