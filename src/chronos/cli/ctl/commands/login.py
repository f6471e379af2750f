"""``chronosctl login`` and ``logout``: a server that is asked from now on, and how one shows oneself there.

A password is not kept where that can be helped: who may make tokens gets one instead, which ends by itself and which
``logout`` takes out of force. Everybody else's is kept as curl keeps one in ``.netrc``: in a file for its owner alone.
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
from chronos.cli.ctl.errors import CommandFailure, RequestRefused
from chronos.cli.output import emit, note

if TYPE_CHECKING:
    from chronos.cli.ctl.client import ApiClient

_TOKEN_DAYS = 30
_INVALID_IN_NAME = re.compile(r"[^A-Za-z0-9._-]")
_OVERRIDING_VARIABLES = ("CHRONOS_SERVER", "CHRONOS_CONTEXT", "CHRONOS_TOKEN")


@click.command(short_help="Sign in to a server, and use it.")
@click.argument("url", metavar="URL")
@click.option("--user", metavar="NAME", help="Who you are; the password is asked for, or read from a pipe.")
@click.option("--token", metavar="TOKEN", help="What to show instead; - reads it from stdin.")
@click.option("--name", metavar="CONTEXT", help="What to call the server.  [default: its host and port]")
@click.option("-n", "--namespace", metavar="NAME", help="The namespace of jobs.  [default: default]")
def login(url: str, user: str | None, token: str | None, name: str | None, namespace: str | None) -> None:
    """Check the address and who you are, keep both as a context, and use it from now on.

    Who may make tokens is given one for 30 days, instead of the password being kept.

    \b
    Examples:
      chronosctl login http://127.0.0.1:8080
      chronosctl login http://127.0.0.1:8080 --user ana --name local
    """
    if user is not None and token is not None:
        raise click.UsageError("--user and --token are both given; leave one of them out")
    namespace = namespace or click.get_current_context().find_root().params.get("namespace")
    parts = urlsplit(url)
    place = parts.netloc.rpartition("@")[2]
    server = ServerContext(url=parts._replace(netloc=place).geturl().rstrip("/"), namespace=namespace)
    if token is not None:
        server = replace(server, token=_read_secret("Token") if token == "-" else token)
        _check(server)
    elif _is_open(server):
        note("nobody is asked who they are there, so that there is nothing to keep but the address")
    else:
        user = user or unquote(parts.username or "") or _prompt("User")
        password = parts.password if user == unquote(parts.username or "") else None
        server = _sign_in(server, user, _read_secret("Password") if password is None else unquote(password))
    contexts = read_contexts()
    contexts.current = name or place
    _revoke_old_token(contexts.servers.get(contexts.current), server)
    contexts.servers[contexts.current] = server
    write_contexts(contexts)
    emit(contexts.current)
    note(f"{hide_password(server.url)} is asked from now on")
    for variable in _OVERRIDING_VARIABLES:
        if os.environ.get(variable):
            note(f"! {variable} is set, and comes before it")


@click.command(short_help="Sign out of a server.")
@click.argument("name", metavar="[CONTEXT]", required=False)
def logout(name: str | None) -> None:
    """Forget how you show yourself to the server in use, or to CONTEXT; the token that login made is revoked.

    \b
    Example:
      chronosctl logout
    """
    contexts = read_contexts()
    name = name or contexts.current
    if name is None:
        raise CommandFailure("no context is in use; name one: chronosctl context list")
    server = contexts.named(name)
    if server.login is not None:
        try:
            _client(server).call("DELETE", "tokens", server.login)
        except RequestRefused as error:
            if error.status not in (401, 404):  # it is of no use any more
                raise
    del contexts.servers[name]
    contexts.current = None if contexts.current == name else contexts.current
    write_contexts(contexts)
    emit(name)
    note("forgotten" if server.login is None else "forgotten, and its token is out of force")


def _revoke_old_token(old: ServerContext | None, new: ServerContext) -> None:
    """Of two tokens for the same context, the one before is of no use any more."""
    if old is not None and old.login is not None and old.url == new.url and new.login is not None:
        with suppress(CommandFailure):
            _client(new).call("DELETE", "tokens", old.login)


def _client(server: ServerContext) -> "ApiClient":
    from chronos.cli.ctl.client import ApiClient

    return ApiClient(server)


def _is_open(server: ServerContext) -> bool:
    """Whether the server lets anybody in; raises when it is not there, or is no Chronos."""
    try:
        _check(server)
    except _NotAuthenticated:
        return False
    return True


class _NotAuthenticated(CommandFailure):
    """Nobody that the server knows."""


def _check(server: ServerContext) -> None:
    try:
        found = _client(server).get("status")
    except RequestRefused as error:
        if error.status == 401:
            raise _NotAuthenticated(str(error.problem.get("detail") or "the server does not know you")) from None
        if error.status == 404:
            raise _not_chronos(server) from None
        raise
    if not isinstance(found, dict) or "now" not in found:
        raise _not_chronos(server)


def _not_chronos(server: ServerContext) -> CommandFailure:
    return CommandFailure(f"{hide_password(server.url)} answers, and not as Chronos does; is there a path missing?")


def _sign_in(server: ServerContext, user: str, password: str) -> ServerContext:
    """The server as it is to be kept for a user: with a token, or else with the password."""
    from datetime import UTC, datetime, timedelta

    parts = urlsplit(server.url)
    netloc = f"{quote(user, safe='')}:{quote(password, safe='')}@{parts.netloc}"
    by_password = replace(server, url=parts._replace(netloc=netloc).geturl())
    _check(by_password)
    name = f"login-{_INVALID_IN_NAME.sub('-', user)[:100]}-{os.urandom(4).hex()}"
    until = (datetime.now(UTC) + timedelta(days=_TOKEN_DAYS)).isoformat(timespec="seconds")
    try:
        made = _client(by_password).call("POST", "tokens", body={"name": name, "role": "admin", "expires_at": until})
    except RequestRefused as error:
        if error.status != 403:
            raise
        note(f"! {user} may not make tokens, so the password is kept, in a file that only you can read")
        return by_password
    note(f"the password is not kept: the token {name} is, until {until[:10]}")
    return replace(server, token=made.value["token"], login=name)


def _prompt(what: str) -> str:
    """Something that only a person can say."""
    if sys.stdin is None or not sys.stdin.isatty():
        raise CommandFailure("the server asks who you are: say --user NAME or --token TOKEN")
    return str(click.prompt(what, err=True))


def _read_secret(what: str) -> str:
    """A secret: asked for on a terminal, without showing it, or else the next line of a pipe."""
    if sys.stdin is not None and sys.stdin.isatty():
        return str(click.prompt(what, hide_input=True, err=True))
    line = "" if sys.stdin is None else sys.stdin.readline().rstrip("\r\n")
    if not line:
        raise CommandFailure(f"there is no {what.lower()}: type it on a terminal, or send it through a pipe")
    return line
