"""Choice of the server: an option, a variable, or a named context in the user's configuration folder.

In order of precedence: ``--server``, ``--context``, ``CHRONOS_SERVER``, ``CHRONOS_CONTEXT``, the current context, the
address that ``chronos server`` listens on by default. A context's token is sent only to that context's server.
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
    """No context has this name."""

    exit_code = EXIT_NOT_FOUND


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerContext:
    """A server's address, credentials and namespace."""

    url: str
    token: str | None = None
    namespace: str | None = None
    login: str | None = None  # the token's name, if `login` created the token


@dataclass(slots=True, kw_only=True)
class Contexts:
    """The named servers of one user."""

    current: str | None = None
    servers: dict[str, ServerContext] = field(default_factory=dict)

    def get(self, name: str) -> ServerContext:
        """Return the server called ``name``. Raises ``ContextNotFound``."""
        server = self.servers.get(name)
        if server is None:
            raise ContextNotFound(f'context "{name}" not found\n  list the contexts: chronosctl context list')
        return server


def contexts_file() -> Path:
    """Return the path of the file with the contexts."""
    return Path(click.get_app_dir("chronos", force_posix=False)) / "contexts.json"


def read_contexts() -> Contexts:
    """Read the contexts. A missing file means no contexts."""
    path = contexts_file()
    try:
        document = json.loads(path.read_text())
    except FileNotFoundError:
        return Contexts()
    except (OSError, ValueError) as error:
        raise CommandFailure(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    try:
        servers = {name: ServerContext(**entry) for name, entry in document["contexts"].items()}
        return Contexts(current=document.get("current"), servers=servers)
    except (AttributeError, KeyError, TypeError):
        raise CommandFailure(f"{path} is not a file of contexts; remove it, and set the contexts again") from None


def write_contexts(contexts: Contexts) -> None:
    """Replace the file atomically. Only its owner may read it, because it holds tokens."""
    path = contexts_file()
    document = {
        "current": contexts.current,
        "contexts": {name: _entry(server) for name, server in sorted(contexts.servers.items())},
    }
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    new = path.with_name(f".{path.name}.{os.getpid()}")
    handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w") as file:
        file.write(json.dumps(document, indent=2) + "\n")
    new.replace(path)


def choose_server(
    *, server: str | None, context: str | None, namespace: str | None, environment: Mapping[str, str] | None = None
) -> ServerContext:
    """Return the server that a command is for."""
    environment = os.environ if environment is None else environment
    chosen = _find_context(server, context, environment)
    token = environment.get("CHRONOS_TOKEN") or chosen.token
    return ServerContext(url=chosen.url, token=token, namespace=namespace or chosen.namespace)


def _find_context(server: str | None, context: str | None, environment: Mapping[str, str]) -> ServerContext:
    if server is not None:
        return ServerContext(url=server)
    if context is not None:
        return read_contexts().get(context)
    if url := environment.get("CHRONOS_SERVER"):
        return ServerContext(url=url)
    if name := environment.get("CHRONOS_CONTEXT"):
        return read_contexts().get(name)
    contexts = read_contexts()
    return ServerContext(url=DEFAULT_SERVER) if contexts.current is None else contexts.get(contexts.current)


def hide_password(url: str) -> str:
    """Return a URL that is safe to print."""
    password = urlsplit(url).password
    return url if password is None else url.replace(f":{password}@", ":…@")


def _entry(server: ServerContext) -> dict[str, Any]:
    return {name: value for name, value in asdict(server).items() if value is not None}
