"""The server's configuration: a file, overridden by variables, overridden by flags. Each value has an origin."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from chronos.core.config import Settings
from chronos.errors import Invalid
from chronos.server.default_settings import build_default_level
from chronos.server.settings import ALIASES, BY_NAME, IGNORED, PEERS, SETTINGS
from chronos.server.strict_yaml import read_yaml

DEFAULT_FILE = Path("chronos.yaml")
PREFIX = "CHRONOS_"
DEFAULT = "default"  # the origin of a setting that is not set
_FLAGS = {"node.id": "--node-id"}  # flags that are not named after the last part of the setting
#: Variables of the same prefix that are not settings.
_CLIENT_VARIABLES = frozenset({"CHRONOS_SERVER", "CHRONOS_TOKEN", "CHRONOS_CONTEXT", "CHRONOS_CONFIG"})

#: Variables written with one underscore instead of two between the parts of a name.
_SINGLE_UNDERSCORE_NAMES = {name.replace(".", "_"): name for name in BY_NAME if "." in name}
_SECTIONS = {name[:at] for name in [*BY_NAME, *ALIASES] for at, letter in enumerate(name) if letter == "."}


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The value and the origin (default, a file, a variable or a flag) of every setting, by its dotted name.

    An invalid setting has its default value and is listed in ``problems``.
    """

    values: Mapping[str, Any]
    origins: Mapping[str, str]
    warnings: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    peers: str = ""  # the file that sets cluster.raft.peers; empty: none does

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    def is_default(self, name: str) -> bool:
        """Whether no file, variable or flag sets this setting."""
        return self.origins[name] == DEFAULT

    def defaults(self) -> Settings:
        """Return the settings that apply to every job by default: only what the configuration sets."""
        return build_default_level({name: value for name, value in self.values.items() if not self.is_default(name)})


@dataclass(slots=True)
class _Reading:
    values: dict[str, Any] = field(default_factory=lambda: {setting.name: setting.default for setting in SETTINGS})
    origins: dict[str, str] = field(default_factory=lambda: {setting.name: DEFAULT for setting in SETTINGS})
    warnings: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    peers: str = ""

    def set(self, name: str, value: Any, origin: str) -> None:
        try:
            self.values[name] = BY_NAME[name].read(value)
            self.origins[name] = origin
        except Invalid as error:
            text = "…" if BY_NAME[name].secret else repr(value)
            self.problems.append(f"{origin}: {name} is {text}, {error}")


def load_config(file: Path | None, environment: Mapping[str, str], flags: Mapping[str, Any]) -> Config:
    """Read the configuration. Raises ``Invalid`` with every problem and its origin; see ``read_config``."""
    config = read_config(file, environment, flags)
    if config.problems:
        raise config_error(config.problems)
    return config


def config_error(problems: Iterable[str]) -> Invalid:
    """Return the error that lists every problem of a configuration."""
    return Invalid("the configuration is invalid:\n" + "\n".join(f"  {problem}" for problem in problems))


def read_config(file: Path | None, environment: Mapping[str, str], flags: Mapping[str, Any]) -> Config:
    """Read the configuration with its problems. Raises ``Invalid`` only if the file cannot be read.

    ``file`` None means ``chronos.yaml`` if it exists. ``flags`` are settings by dotted name; None means not given.
    """
    reading = _Reading()
    path = file if file is not None else (DEFAULT_FILE if DEFAULT_FILE.exists() else None)
    if path is not None:
        _read_file(reading, path)
    _read_environment(reading, environment)
    for name, value in flags.items():
        if value is not None:
            reading.set(name, value, _FLAGS.get(name, f"--{name.rpartition('.')[2]}"))
    _derive_store(reading)
    return Config(
        values=reading.values,
        origins=reading.origins,
        warnings=tuple(reading.warnings),
        problems=tuple(reading.problems),
        peers=reading.peers,
    )


def _derive_store(reading: _Reading) -> None:
    """Put the store into the data directory, unless ``store`` is set."""
    folder, origin = reading.values["cluster.data_dir"], reading.origins["cluster.data_dir"]
    if origin == DEFAULT:
        return
    if reading.origins["store"] == DEFAULT:
        reading.values["store"], reading.origins["store"] = f"sqlite:///{folder.rstrip('/')}/chronos.db", origin
    else:
        store_origin = reading.origins["store"]
        reading.warnings.append(f"{origin}: cluster.data_dir is ignored, because {store_origin} sets store")


def _read_file(reading: _Reading, path: Path) -> None:
    try:
        documents = read_yaml(path.read_text())
    except (OSError, UnicodeDecodeError) as error:
        raise Invalid(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    except Invalid as error:
        raise Invalid(f"{path}: {error}") from None
    if len(documents) > 1 or not all(isinstance(document, dict) for document in documents):
        raise Invalid(f"{path} must contain one mapping of settings, such as store: sqlite:///chronos-data/chronos.db")
    for name, value in _leaves("", documents[0] if documents else {}):
        known = ALIASES.get(name, name)
        ignored = next((reason for prefix, reason in IGNORED.items() if f"{name}.".startswith(f"{prefix}.")), None)
        if known in BY_NAME:
            reading.set(known, value, str(path))
        elif known in _SECTIONS and value in (None, {}):
            continue  # an empty section
        elif known in _SECTIONS:
            reading.problems.append(f"{path}: {name} is {value!r}, expected a mapping of settings")
        elif ignored is not None:
            reading.warnings.append(f"{path}: {name} is ignored: {ignored}")
            if f"{name}.".startswith(f"{PEERS}.") and value:
                reading.peers = str(path)
        else:
            reading.problems.append(f"{path}: unknown setting {name}{_suggest(name)}")


def _read_environment(reading: _Reading, environment: Mapping[str, str]) -> None:
    for variable, value in sorted(environment.items()):
        if not variable.startswith(PREFIX) or variable in _CLIENT_VARIABLES:
            continue
        dotted = variable.removeprefix(PREFIX).lower().replace("__", ".")
        name = ALIASES.get(dotted, dotted)
        if name in BY_NAME:
            reading.set(name, value, variable)
        elif variable.removeprefix(PREFIX).lower() in _SINGLE_UNDERSCORE_NAMES:
            correct = PREFIX + _SINGLE_UNDERSCORE_NAMES[variable.removeprefix(PREFIX).lower()].upper().replace(
                ".", "__"
            )
            reading.problems.append(f"{variable}: use two underscores between the parts of a name: {correct}")
        elif "." in name:
            reading.problems.append(f"{variable}: unknown setting {name}{_suggest(name)}")


def _leaves(prefix: str, mapping: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield dotted names and values. A mapping is one value if a setting has its name, and no setting is below it."""
    for key, value in mapping.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict) and value and (name not in BY_NAME or name in _SECTIONS):
            yield from _leaves(f"{name}.", value)
        else:
            yield name, value


def _suggest(name: str) -> str:
    """Return a suggestion: the most similar setting, or else the most similar section."""
    section, dot, rest = name.partition(".")
    sections = {known.partition(".")[0] for known in BY_NAME if "." in known}
    near_sections = get_close_matches(section, sections, n=1)
    matches = (
        get_close_matches(name, [*BY_NAME, *ALIASES], n=1)
        or (get_close_matches(f"{near_sections[0]}.{rest}", BY_NAME, n=1) if near_sections and dot else [])
        or near_sections
    )
    return f"; did you mean {matches[0]}?" if matches else ""
