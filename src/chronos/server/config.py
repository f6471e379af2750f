"""What the server is told: a file, overridden by variables, overridden by flags; and where each value came from."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from chronos.core.config import Concurrency, Overlap, Recovery, RecoveryStrategy, Retry, Settings
from chronos.errors import Invalid
from chronos.server.settings import ALIASES, BY_NAME, IGNORED, PEERS, SETTINGS
from chronos.server.strict_yaml import read_yaml

DEFAULT_FILE = Path("chronos.yaml")
PREFIX = "CHRONOS_"
DEFAULT = "default"  # the origin of what was not said
_FLAGS = {"node.id": "--node-id"}  # where a flag is not called after the last part of its setting's name
#: Variables of the same prefix that are not settings.
_CLIENT_VARIABLES = frozenset(
    {"CHRONOS_SERVER", "CHRONOS_TOKEN", "CHRONOS_NAMESPACE", "CHRONOS_CONTEXT", "CHRONOS_CONFIG"}
)


#: What somebody writes who does not know of the two underscores.
_SINGLE_UNDERSCORE_NAMES = {name.replace(".", "_"): name for name in BY_NAME if "." in name}
_SECTIONS = {name[:at] for name in [*BY_NAME, *ALIASES] for at, letter in enumerate(name) if letter == "."}


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Every setting's value by its dotted name, and its origin: default, a file, a variable, a flag.

    A setting with a problem has its default.
    """

    values: Mapping[str, Any]
    origins: Mapping[str, str]
    warnings: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    peers: str = ""  # where cluster.raft.peers names other servers; empty: nowhere

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    def is_default(self, name: str) -> bool:
        """Whether no file, variable or flag sets it."""
        return self.origins[name] == DEFAULT

    def defaults(self) -> Settings:
        """What falls from the server to every job."""

        def us(name: str) -> int:
            return round(float(self[name]) * 1e6)

        return Settings(
            retry=Retry(
                max_attempts=self["defaults.retry.max_attempts"],
                initial_us=us("defaults.retry.initial_interval"),
                multiplier=self["defaults.retry.multiplier"],
                max_us=us("defaults.retry.max_interval"),
            ),
            execution_timeout_us=us("defaults.execution_timeout"),
            # Only where it was said: else webhooks have a timeout of their own.
            task_timeout_us=None if self.is_default("defaults.task_timeout") else us("defaults.task_timeout"),
            concurrency=Concurrency(limit=self["dispatcher.per_job_limit"]),
            overlap=Overlap(self["defaults.overlap"]),
            recovery=Recovery(strategy=RecoveryStrategy(self["defaults.recovery"])),
        )


@dataclass(slots=True)
class _Reading:
    values: dict[str, Any] = field(default_factory=lambda: {setting.name: setting.default for setting in SETTINGS})
    origins: dict[str, str] = field(default_factory=lambda: {setting.name: DEFAULT for setting in SETTINGS})
    warnings: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    peers: str = ""

    def take(self, name: str, value: Any, origin: str) -> None:
        try:
            self.values[name] = BY_NAME[name].read(value)
            self.origins[name] = origin
        except Invalid as error:
            shown = "…" if BY_NAME[name].secret else repr(value)
            self.problems.append(f"{origin}: {name} is {shown}, {error}")


def load_config(file: Path | None, environment: Mapping[str, str], flags: Mapping[str, Any]) -> Config:
    """Read the configuration. Raises ``Invalid`` with every problem, each with where it is; see ``read_config``."""
    config = read_config(file, environment, flags)
    if config.problems:
        raise config_error(config.problems)
    return config


def config_error(problems: Iterable[str]) -> Invalid:
    """The error that names every problem of a configuration."""
    return Invalid("the configuration is not right:\n" + "\n".join(f"  {problem}" for problem in problems))


def read_config(file: Path | None, environment: Mapping[str, str], flags: Mapping[str, Any]) -> Config:
    """Read the configuration with its problems. Raises ``Invalid`` only for a file that cannot be read at all.

    ``file`` None: ``chronos.yaml`` where it exists. ``flags`` are settings by dotted name; None is "not given".
    """
    reading = _Reading()
    path = file if file is not None else (DEFAULT_FILE if DEFAULT_FILE.exists() else None)
    if path is not None:
        _read_file(reading, path)
    _read_environment(reading, environment)
    for name, value in flags.items():
        if value is not None:
            reading.take(name, value, _FLAGS.get(name, f"--{name.rpartition('.')[2]}"))
    _derive_store(reading)
    return Config(
        values=reading.values,
        origins=reading.origins,
        warnings=tuple(reading.warnings),
        problems=tuple(reading.problems),
        peers=reading.peers,
    )


def _derive_store(reading: _Reading) -> None:
    """The store is a file in the data directory, unless it is said where the store is."""
    folder, origin = reading.values["cluster.data_dir"], reading.origins["cluster.data_dir"]
    if origin == DEFAULT:
        return
    if reading.origins["store"] == DEFAULT:
        reading.values["store"], reading.origins["store"] = f"sqlite:///{folder.rstrip('/')}/chronos.db", origin
    else:
        said = reading.origins["store"]
        reading.warnings.append(
            f"{origin}: cluster.data_dir is left aside: {said} sets store, which says where data is"
        )


def _read_file(reading: _Reading, path: Path) -> None:
    try:
        documents = read_yaml(path.read_text())
    except (OSError, UnicodeDecodeError) as error:
        raise Invalid(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    except Invalid as error:
        raise Invalid(f"{path}: {error}") from None
    if len(documents) > 1 or not all(isinstance(document, dict) for document in documents):
        raise Invalid(f"{path} must hold one mapping of settings, such as store: sqlite:///chronos-data/chronos.db")
    for name, value in _leaves("", documents[0] if documents else {}):
        known = ALIASES.get(name, name)
        aside = next((why for prefix, why in IGNORED.items() if f"{name}.".startswith(f"{prefix}.")), None)
        if known in BY_NAME:
            reading.take(known, value, str(path))
        elif known in _SECTIONS and value in (None, {}):
            continue  # a section with nothing in it
        elif known in _SECTIONS:
            reading.problems.append(f"{path}: {name} is {value!r}, expected a mapping of settings")
        elif aside is not None:
            reading.warnings.append(f"{path}: {name} is left aside: {aside}")
            if f"{name}.".startswith(f"{PEERS}.") and value:
                reading.peers = str(path)
        else:
            reading.problems.append(f"{path}: there is no setting {name}{_suggest(name)}")


def _read_environment(reading: _Reading, environment: Mapping[str, str]) -> None:
    for variable, value in sorted(environment.items()):
        if not variable.startswith(PREFIX) or variable in _CLIENT_VARIABLES:
            continue
        said = variable.removeprefix(PREFIX).lower().replace("__", ".")
        name = ALIASES.get(said, said)
        if name in BY_NAME:
            reading.take(name, value, variable)
        elif variable.removeprefix(PREFIX).lower() in _SINGLE_UNDERSCORE_NAMES:
            right = PREFIX + _SINGLE_UNDERSCORE_NAMES[variable.removeprefix(PREFIX).lower()].upper().replace(".", "__")
            reading.problems.append(f"{variable}: the parts of a name are joined by two underscores: {right}")
        elif "." in name:
            reading.problems.append(f"{variable}: there is no setting {name}{_suggest(name)}")


def _leaves(prefix: str, mapping: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Dotted names and values; a setting that is a mapping itself is not looked into."""
    for key, value in mapping.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict) and value and name not in BY_NAME:
            yield from _leaves(f"{name}.", value)
        else:
            yield name, value


def _suggest(name: str) -> str:
    """A question after the setting that a wrong name comes closest to, or else after the nearest section."""
    section, dot, rest = name.partition(".")
    sections = {known.partition(".")[0] for known in BY_NAME if "." in known}
    near = get_close_matches(section, sections, n=1)
    found = (
        get_close_matches(name, [*BY_NAME, *ALIASES], n=1)
        or (get_close_matches(f"{near[0]}.{rest}", BY_NAME, n=1) if near and dot else [])
        or near
    )
    return f"; did you mean {found[0]}?" if found else ""
