"""``chronosctl login`` and ``logout``: store a server and credentials for it, and delete them.

A user who may create tokens gets an API token, and the password is not stored. The token expires, and ``logout``
deletes it. The password of any other user is stored in a file that only its owner can read, as curl does
with ``.netrc``.
"""

import os
import re
import sys
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote, urlsplit

import click

from chronos.cli.ctl.contexts import ServerContext, hide_password, read_contexts, write_contexts
from chronos.cli.ctl.errors import CommandFailure, ForeignServer, RequestRefused
from chronos.cli.output import emit, note

if TYPE_CHECKING:
    from chronos.cli.ctl.client import ApiClient

_TOKEN_DAYS = 30
_INVALID_IN_NAME = re.compile(r"[^A-Za-z0-9._-]")
_OVERRIDING_VARIABLES = ("CHRONOS_SERVER", "CHRONOS_CONTEXT", "CHRONOS_TOKEN")


@click.command(short_help="Sign in to a server, and use it.")
@click.argument("url", metavar="URL")
@click.option("--user", metavar="NAME", help="The user name; the password is prompted for, or read from a pipe.")
@click.option("--token", metavar="TOKEN", help="An API token instead of a password; - reads it from stdin.")
@click.option("--name", metavar="CONTEXT", help="The name of the context.  [default: host and port of the server]")
@click.option("-n", "--namespace", metavar="NAME", help="The namespace of jobs.  [default: default]")
def login(url: str, user: str | None, token: str | None, name: str | None, namespace: str | None) -> None:
    """Check the address and the credentials, store them as a context, and make it the current one.

    If you may create tokens, a token for 30 days is stored instead of the password.

    \b
    Examples:
      chronosctl login http://127.0.0.1:8080
      chronosctl login http://127.0.0.1:8080 --user ana --name local
    """
    if user is not None and token is not None:
        raise click.UsageError("--user and --token cannot be combined; leave one out")
    namespace = namespace or click.get_current_context().find_root().params.get("namespace")
    parts = urlsplit(url)
    address = parts.netloc.rpartition("@")[2]
    server = ServerContext(url=parts._replace(netloc=address).geturl().rstrip("/"), namespace=namespace)
    if _is_open(server):
        note("the server needs no login and ignores credentials; only its address is stored")
    elif token is not None:
        server = replace(server, token=_read_secret("Token") if token == "-" else token)
        _check(server)
    else:
        user = user or unquote(parts.username or "") or _prompt("User")
        password = parts.password if user == unquote(parts.username or "") else None
        server = _sign_in(server, user, _read_secret("Password") if password is None else unquote(password))
    contexts = read_contexts()
    contexts.current = name or address
    _revoke_old_token(contexts.servers.get(contexts.current), server)
    contexts.servers[contexts.current] = server
    write_contexts(contexts)
    emit(contexts.current)
    note(f"now using {hide_password(server.url)}")
    for variable in _OVERRIDING_VARIABLES:
        if os.environ.get(variable):
            note(f"! {variable} is set and takes precedence")


@click.command(short_help="Sign out of a server.")
@click.argument("name", metavar="[CONTEXT]", required=False)
def logout(name: str | None) -> None:
    """Delete the current context, or CONTEXT, and the token that login created.

    \b
    Example:
      chronosctl logout
    """
    contexts = read_contexts()
    name = name or contexts.current
    if name is None:
        raise CommandFailure("no context is in use; name one\n  list the contexts: chronosctl context list")
    server = contexts.get(name)
    if server.login is not None:
        try:
            _client(server).call("DELETE", "tokens", server.login)
        except RequestRefused as error:
            if error.status not in (401, 404):  # the token is already invalid
                raise
    del contexts.servers[name]
    contexts.current = None if contexts.current == name else contexts.current
    write_contexts(contexts)
    emit(name)
    note("deleted" if server.login is None else "deleted, together with its token")


def _revoke_old_token(old: ServerContext | None, new: ServerContext) -> None:
    """Delete the token that an earlier login created for the same context."""
    if old is not None and old.login is not None and old.url == new.url and new.login is not None:
        with suppress(CommandFailure):
            _client(new).call("DELETE", "tokens", old.login)


def _client(server: ServerContext) -> "ApiClient":
    from chronos.cli.ctl.client import ApiClient

    return ApiClient(server)


def _is_open(server: ServerContext) -> bool:
    """Whether the server needs no login. Raises ``CommandFailure`` if it is unreachable or not Chronos."""
    try:
        _check(server)
    except _NotAuthenticated:
        return False
    return True


class _NotAuthenticated(CommandFailure):
    """The server rejected the credentials."""


def _check(server: ServerContext) -> None:
    try:
        status = _client(server).get("status")
    except ForeignServer:
        raise _not_chronos(server) from None
    except RequestRefused as error:
        if error.status == 401:
            raise _NotAuthenticated(
                str(error.problem.get("detail") or "the server rejects these credentials")
            ) from None
        if error.status == 404:
            raise _not_chronos(server) from None
        raise
    if not isinstance(status, dict) or "now" not in status:
        raise _not_chronos(server)


def _not_chronos(server: ServerContext) -> CommandFailure:
    return CommandFailure(f"{hide_password(server.url)} does not answer like a Chronos server; is a path missing?")


def _sign_in(server: ServerContext, user: str, password: str) -> ServerContext:
    """Return the context to store for a user: with a new token, or else with the password."""
    from datetime import UTC, datetime, timedelta

    parts = urlsplit(server.url)
    netloc = f"{quote(user, safe='')}:{quote(password, safe='')}@{parts.netloc}"
    with_password = replace(server, url=parts._replace(netloc=netloc).geturl())
    _check(with_password)
    name = f"login-{_INVALID_IN_NAME.sub('-', user)[:100]}-{os.urandom(4).hex()}"
    expires_at = (datetime.now(UTC) + timedelta(days=_TOKEN_DAYS)).isoformat(timespec="seconds")
    try:
        reply = _client(with_password).call(
            "POST", "tokens", body={"name": name, "role": "admin", "expires_at": expires_at}
        )
    except RequestRefused as error:
        if error.status != 403:
            raise
        note(f"! {user} may not create tokens, so the password is stored in a file that only you can read")
        return with_password
    note(f"stored the token {name} instead of the password; it expires on {expires_at[:10]}")
    return replace(server, token=reply.value["token"], login=name)


def _prompt(label: str) -> str:
    """Ask the user. Raises ``CommandFailure`` if stdin is not a terminal."""
    if sys.stdin is None or not sys.stdin.isatty():
        raise CommandFailure("the server needs a login; give --user NAME or --token TOKEN")
    return str(click.prompt(label, err=True))


def _read_secret(label: str) -> str:
    """Read a secret: from a hidden prompt on a terminal, or else the next line of a pipe."""
    if sys.stdin is not None and sys.stdin.isatty():
        return str(click.prompt(label, hide_input=True, err=True))
    line = "" if sys.stdin is None else sys.stdin.readline().rstrip("\r\n")
    if not line:
        raise CommandFailure(f"no {label.lower()} was given; type it on a terminal, or send it through a pipe")
    return line
