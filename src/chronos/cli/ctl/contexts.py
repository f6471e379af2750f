"""Which server is meant: an option, a variable, or a named context of a file in the user's configuration folder.

The nearest wins: ``--server``, ``--context``, ``CHRONOS_SERVER``, ``CHRONOS_CONTEXT``, the context in use, and then the
server that ``chronos server`` starts by default. A context's token goes to its own server and to no other.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click

from chronos.cli.ctl.errors import EXIT_NOT_FOUND, CommandFailure

DEFAULT_SERVER = "http://127.0.0.1:8080"


class ContextNotFound(CommandFailure):
    """A name that was given to no server."""

    exit_code = EXIT_NOT_FOUND


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerContext:
    """An address, and how to show oneself there."""

    url: str
    token: str | None = None
    namespace: str | None = None
    login: str | None = None  # the name of the token, where `login` made it


@dataclass(slots=True, kw_only=True)
class Contexts:
    """The named servers of one user."""

    current: str | None = None
    servers: dict[str, ServerContext] = field(default_factory=dict)

    def named(self, name: str) -> ServerContext:
        """A server by its name."""
        found = self.servers.get(name)
        if found is None:
            raise ContextNotFound(f'there is no context "{name}"\n  chronosctl context list')
        return found


def contexts_file() -> Path:
    """Where they are kept: for one user, and readable by nobody else."""
    return Path(click.get_app_dir("chronos", force_posix=False)) / "contexts.json"


def read_contexts() -> Contexts:
    """All of them; none when there is no file."""
    path = contexts_file()
    try:
        said = json.loads(path.read_text())
    except FileNotFoundError:
        return Contexts()
    except (OSError, ValueError) as error:
        raise CommandFailure(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    try:
        servers = {name: ServerContext(**entry) for name, entry in said["contexts"].items()}
        return Contexts(current=said.get("current"), servers=servers)
    except (AttributeError, KeyError, TypeError):
        raise CommandFailure(f"{path} is not as chronosctl writes it; remove it, and set its contexts anew") from None


def write_contexts(contexts: Contexts) -> None:
    """Replace the file as a whole; tokens are in it, so it is for its owner alone."""
    path = contexts_file()
    said = {
        "current": contexts.current,
        "contexts": {name: _entry(server) for name, server in sorted(contexts.servers.items())},
    }
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    new = path.with_name(f".{path.name}.{os.getpid()}")
    handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w") as file:
        file.write(json.dumps(said, indent=2) + "\n")
    new.replace(path)


def choose_server(
    *, server: str | None, context: str | None, namespace: str | None, environment: Mapping[str, str] | None = None
) -> ServerContext:
    """The server that a command is for."""
    environment = os.environ if environment is None else environment
    chosen = _find_context(server, context, environment)
    token = environment.get("CHRONOS_TOKEN") or chosen.token
    return ServerContext(url=chosen.url, token=token, namespace=namespace or chosen.namespace)


def _find_context(server: str | None, context: str | None, environment: Mapping[str, str]) -> ServerContext:
    if server is not None:
        return ServerContext(url=server)
    if context is not None:
        return read_contexts().named(context)
    if url := environment.get("CHRONOS_SERVER"):
        return ServerContext(url=url)
    if name := environment.get("CHRONOS_CONTEXT"):
        return read_contexts().named(name)
    contexts = read_contexts()
    return ServerContext(url=DEFAULT_SERVER) if contexts.current is None else contexts.named(contexts.current)


def hide_password(url: str) -> str:
    """An address as it may be printed."""
    password = urlsplit(url).password
    return url if password is None else url.replace(f":{password}@", ":…@")


def _entry(server: ServerContext) -> dict[str, Any]:
    return {name: value for name, value in asdict(server).items() if value is not None}
