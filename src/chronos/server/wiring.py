"""Turns settings into the options of each part, and rejects settings that contradict each other."""

import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from chronos.api import Access, ApiOptions, CommandAuthor, TokenStore, read_grant, read_tokens, read_users, routes_with
from chronos.assembly import WebhookOptions, is_shared, list_target_kinds, make_store, parse_sqlite_file
from chronos.clock import Clock
from chronos.core.token import ApiToken
from chronos.engine.options import EngineOptions
from chronos.errors import Invalid
from chronos.runners.command.options import CommandRules
from chronos.server.command_user import check_user, command_warnings
from chronos.server.config import DEFAULT, Config, config_error
from chronos.store.contract import Store
from chronos.ui import UiOptions, is_ui_path

_PLACEHOLDER = ("...", "…")  # the end of an incomplete hash, as in examples


@dataclass(frozen=True, slots=True, kw_only=True)
class Roles:
    """Which roles a server has: it schedules, it works, or both. Without a role it only serves the API."""

    schedules: bool = True
    works: bool = True

    @property
    def is_node(self) -> bool:
        return self.schedules or self.works


ALL_ROLES = Roles()


def check_config(config: Config) -> tuple[str, ...]:
    """Return warnings about the configuration.

    Raises ``Invalid`` with every problem at once: invalid settings and settings that contradict each other, each with
    its origin.
    """
    problems = list(config.problems)

    @contextmanager
    def collect_problems(origin: str) -> Iterator[None]:
        try:
            yield
        except Invalid as error:
            problems.append(str(error) if origin == DEFAULT else f"{origin}: {error}")

    with collect_problems(config.origins["store"]):
        make_store(config["store"])
    with collect_problems(config.peers):
        _reject_peers(config)
    with collect_problems(config.origins["scheduler.heartbeat_timeout"]):
        engine_options(config, ALL_ROLES)
    with collect_problems(config.origins["server.base_path"]):
        api_options(config)
    with collect_problems(config.origins["auth.users"]):
        users, warnings = read_config_users(config)
    with collect_problems(config.origins["auth.tokens"]):
        tokens = read_config_tokens(config)
    with collect_problems(config.origins["dispatcher.targets"]):
        allowed_targets(config)
    if problems:
        raise config_error(problems)
    warnings += command_warnings(config)
    if config["auth.type"] != "none" and not users and not tokens:
        warnings += ("no user can log in; only tokens of the store work: add a user to auth.users",)
    return (*config.warnings, *warnings)


def _reject_peers(config: Config) -> None:
    """Reject peers without a shared store: each server would run every job."""
    if config.peers and not is_shared(config["store"]):
        raise Invalid(
            "cluster.raft.peers names other servers, but the store is not shared, so each server would run every job; "
            "set store to one PostgreSQL database for all of them (postgresql://user@host/database), or remove "
            "cluster.raft.peers"
        )


def engine_options(config: Config, roles: Roles) -> EngineOptions:
    return EngineOptions(
        node_name=config["node.id"] or socket.gethostname(),
        slots=config["dispatcher.max_concurrent"],
        queue_slots=config["dispatcher.queue_slots"],
        queues=frozenset(config["node.queues"]) or None,
        labels=config["node.labels"],
        lookahead_s=config["scheduler.lookahead"],
        tick_s=config["scheduler.tick_interval"],
        reaper_s=config["scheduler.reaper_interval"],
        heartbeat_s=config["scheduler.heartbeat_interval"],
        heartbeat_timeout_s=config["scheduler.heartbeat_timeout"],
        grace_s=config["scheduler.grace_period"],
        timeout_grace_s=config["scheduler.timeout_grace"],
        schedules=roles.schedules,
        works=roles.works,
        version=version("chronos-scheduler"),
        address="{}:{}".format(*config["server.listen"]),
    )


def webhook_options(config: Config) -> WebhookOptions:
    """Return the limits of webhooks."""
    return WebhookOptions(
        allow_private=config["dispatcher.http.allow_private"],
        allow_hosts=config["dispatcher.http.allow_hosts"],
        timeout_s=config["dispatcher.http.timeout"],
        max_idle=config["dispatcher.http.max_idle_conns"],
        idle_timeout_s=config["dispatcher.http.idle_conn_timeout"],
    )


def allowed_targets(config: Config) -> tuple[str, ...] | None:
    """Return the kinds of targets that jobs may have; None means all. Raises ``Invalid`` for an unknown kind."""
    allowed: tuple[str, ...] | None = config["dispatcher.targets"]
    known = list_target_kinds()
    for kind in allowed or ():
        if kind not in known:
            raise Invalid(f'dispatcher.targets has the unknown kind "{kind}"; use {", ".join(known)}')
    return allowed


def command_rules(config: Config) -> CommandRules:
    """Return the rules for all commands. Raises ``Invalid`` if they cannot run as the configured user."""
    rules = CommandRules(user=config["dispatcher.command.user"], limits=config["dispatcher.command.limits"])
    if rules.user is not None:
        check_user(config, rules.user)
    return rules


def api_options(config: Config) -> ApiOptions:
    options = ApiOptions(
        base_path=config["server.base_path"],
        request_limit=config["server.request_limit"],
        request_timeout_s=config["server.request_timeout"],
        write_timeout_s=config["server.write_timeout"],
        metrics_path=config["metrics.prometheus.path"] if config["metrics.prometheus.enabled"] else None,
        submit_rate=config["queue.submit_rate"],
        hosts=config["server.hosts"],
        public_docs=config["server.public_docs"],
        command_authors=frozenset(map(CommandAuthor, config["dispatcher.command.roles"])),
        trusted_proxies=config["server.trusted_proxies"],
    )
    routes_with(options.metrics_path)
    if options.metrics_path is not None and is_ui_path(options.metrics_path):
        raise Invalid(f'metrics.prometheus.path "{options.metrics_path}" is a path of the web UI; choose another')
    return options


def ui_options(config: Config) -> UiOptions:
    return UiOptions(
        base_path=config["server.base_path"],
        read_only=config["ui.read_only"],
        timezone=config["ui.timezone"],
        write_timeout_s=config["server.write_timeout"],
    )


def make_access(config: Config, clock: Clock, store: Store) -> Access:
    """Return the access control: the users and tokens of the configuration and of the store."""
    if config["auth.type"] == "none":
        return Access(clock)
    users, _ = read_config_users(config)
    return Access(clock, users=read_users(users), tokens=TokenStore(store, read_config_tokens(config)))


def read_config_users(config: Config) -> tuple[dict[str, Mapping[str, Any]], tuple[str, ...]]:
    """Return the users, and a warning for each who cannot log in. A bare hash means an admin."""
    users: dict[str, Mapping[str, Any]] = {}
    warnings: list[str] = []
    for name, entry in config["auth.users"].items():
        user = {"password_hash": entry, "role": "admin"} if isinstance(entry, str) else entry
        hashed = user.get("password_hash") if isinstance(user, Mapping) else None
        if isinstance(hashed, str) and hashed.endswith(_PLACEHOLDER):
            warnings.append(
                f"auth.users.{name} cannot log in: its password_hash is incomplete; "
                "create one with chronos config hash-password"
            )
        else:
            users[name] = user
    if config["auth.type"] == "none":
        return {}, ()
    read_users(users)
    return users, tuple(warnings)


def read_config_tokens(config: Config) -> list[ApiToken]:
    """Return the tokens of the configuration. Raises ``Invalid`` for an invalid token."""
    tokens = read_tokens(config["auth.tokens"])
    for token in tokens:
        read_grant(f"auth.tokens.{token.name}", {"role": token.role, "namespaces": token.namespaces})
    return tokens


def create_data_folder(config: Config) -> None:
    """Create the folder of the store's file, readable only for its owner."""
    data = parse_sqlite_file(config["store"])
    if data is None or data.parent.exists():
        return
    try:
        data.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise Invalid(
            f"the folder {data.parent} cannot be created: {error.strerror}; create it, or name another with --store"
        ) from None
