"""The table of all server settings: name, reader, default and description.

The configuration file, the environment variables and ``chronos config show`` are all based on this table.
"""

from chronos.server.default_settings import DEFAULT_SETTINGS
from chronos.server.setting_readers import (
    Setting,
    address,
    duration,
    flag,
    folder,
    labels,
    limits,
    mapping,
    networks,
    one_of,
    optional_rate,
    optional_text,
    optional_texts,
    size,
    slots,
    text,
    texts,
    texts_of,
    url_path,
    whole_number,
    zone,
)

SETTINGS: tuple[Setting, ...] = (
    Setting(name="store", read=text, default="sqlite:///chronos-data/chronos.db", about="the URL of the store"),
    Setting(name="cluster.data_dir", read=folder, default="chronos-data", about="the folder of a SQLite store"),
    Setting(name="server.listen", read=address, default=("127.0.0.1", 8080), about="HOST:PORT of the API"),
    Setting(name="server.base_path", read=text, default="", about="a prefix for all paths, behind a proxy"),
    Setting(name="server.request_limit", read=size, default=2 << 20, about="the largest request body"),
    Setting(name="server.request_timeout", read=duration, default=30.0, about="how long a request may take"),
    Setting(
        name="server.write_timeout", read=duration, default=30.0, about="how long a client may take to read a reply"
    ),
    Setting(name="server.insecure", read=flag, default=False, about="allow other machines without a login"),
    Setting(name="server.hosts", read=texts, default=(), about="host names that are accepted without auth"),
    Setting(name="server.public_docs", read=flag, default=True, about="/docs and /openapi.json need no login"),
    Setting(
        name="server.trusted_proxies", read=networks, default=(), about="proxies whose forwarded addresses are trusted"
    ),
    Setting(name="node.id", read=optional_text, default=None, about="the name of this node; default: the host name"),
    Setting(name="node.labels", read=labels, default={}, about="labels of this node, for placement"),
    Setting(name="node.queues", read=texts, default=(), about="the queues that this node works on; empty: all"),
    Setting(name="scheduler.lookahead", read=duration, default=5.0, about="how far ahead due jobs are prepared"),
    Setting(
        name="scheduler.tick_interval",
        read=duration,
        default=1.0,
        about="how often due jobs are checked as a safety net",
    ),
    Setting(name="scheduler.reaper_interval", read=duration, default=5.0, about="how often dead nodes are detected"),
    Setting(
        name="scheduler.heartbeat_interval", read=duration, default=10.0, about="the time between heartbeats of a node"
    ),
    Setting(
        name="scheduler.heartbeat_timeout",
        read=duration,
        default=30.0,
        about="without a heartbeat for this long, a node is dead",
    ),
    Setting(
        name="scheduler.grace_period",
        read=duration,
        default=30.0,
        about="how long work may take to stop before it is killed",
    ),
    Setting(name="scheduler.timeout_grace", read=duration, default=2.0, about="the same, after a timeout"),
    Setting(
        name="dispatcher.max_concurrent", read=whole_number(1), default=100, about="concurrent executions on this node"
    ),
    Setting(
        name="dispatcher.queue_slots", read=slots, default={}, about="concurrent executions per queue on this node"
    ),
    Setting(
        name="dispatcher.per_job_limit",
        read=whole_number(0),
        default=0,
        about="concurrent executions of a job that sets no limit; 0: unlimited",
    ),
    Setting(
        name="dispatcher.targets", read=optional_texts, default=None, about="the allowed kinds of targets; default: all"
    ),
    Setting(
        name="dispatcher.command.roles",
        read=texts_of("admin", "namespace_admin"),
        default=("admin",),
        about="the roles that may save jobs with commands, if auth is on",
    ),
    Setting(
        name="dispatcher.command.user", read=optional_text, default=None, about="the system user that commands run as"
    ),
    Setting(
        name="dispatcher.command.limits", read=limits, default={}, about="limits of every command; jobs may lower them"
    ),
    Setting(name="dispatcher.http.timeout", read=duration, default=30.0, about="the default timeout of a webhook"),
    Setting(name="dispatcher.http.allow_private", read=flag, default=False, about="allow webhooks to private networks"),
    Setting(name="dispatcher.http.allow_hosts", read=texts, default=(), about="private hosts that webhooks may reach"),
    Setting(
        name="dispatcher.http.max_idle_conns",
        read=whole_number(0),
        default=1_000,
        about="idle connections kept for reuse",
    ),
    Setting(
        name="dispatcher.http.idle_conn_timeout",
        read=duration,
        default=4.0,
        about="how long an idle connection is kept",
    ),
    *DEFAULT_SETTINGS,
    Setting(
        name="queue.max_pending",
        read=whole_number(1, 100_000_000),
        default=100_000,
        about="ready and queued executions; beyond that 429",
    ),
    Setting(
        name="queue.submit_rate",
        read=optional_rate,
        default=None,
        about="requests per second and client that save jobs or start runs; beyond it 429",
    ),
    Setting(name="auth.type", read=one_of("none", "basic"), default="none", about="how users log in"),
    Setting(name="auth.users", read=mapping, default={}, about="name: {password_hash, role}", secret=True),
    Setting(name="auth.tokens", read=mapping, default={}, about="name: {token_hash, role}", secret=True),
    Setting(
        name="logging.level",
        read=one_of("debug", "info", "warning", "error"),
        default="info",
        about="the minimum level of log lines",
    ),
    Setting(
        name="logging.format",
        read=one_of("json", "console"),
        default=None,
        about="default: console on a terminal, else json",
    ),
    Setting(name="logging.output", read=one_of("stderr", "stdout"), default="stderr", about="where log lines go"),
    Setting(name="metrics.prometheus.enabled", read=flag, default=True, about="whether metrics are served"),
    Setting(name="metrics.prometheus.path", read=url_path, default="/metrics", about="the path of the metrics"),
    Setting(name="metrics.per_job", read=flag, default=True, about="a label with the name of the job"),
    Setting(name="ui.enabled", read=flag, default=True, about="whether the web UI is served"),
    Setting(name="ui.read_only", read=flag, default=False, about="whether the web UI offers no changes"),
    Setting(name="ui.timezone", read=zone, default="UTC", about="the zone of viewers who have not chosen one"),
)
BY_NAME = {setting.name: setting for setting in SETTINGS}

#: Other names for the same settings.
ALIASES = {
    "defaults.recovery.strategy": "defaults.recovery",
    "defaults.update.policy": "defaults.update",
    "cluster.node_id": "node.id",
    "server.http.address": "server.listen",
    "server.http.read_timeout": "server.request_timeout",
    "server.http.write_timeout": "server.write_timeout",
    "scheduler.execution_timeout": "defaults.execution_timeout",
    "scheduler.default_retry_policy.max_attempts": "defaults.retry.max_attempts",
    "scheduler.default_retry_policy.initial_interval": "defaults.retry.initial_interval",
    "scheduler.default_retry_policy.max_interval": "defaults.retry.max_interval",
    "scheduler.default_retry_policy.multiplier": "defaults.retry.multiplier",
    "dispatcher.concurrency.max_concurrent_jobs": "dispatcher.max_concurrent",
    "dispatcher.concurrency.per_job_limit": "dispatcher.per_job_limit",
}
#: The setting with the other servers of a cluster. A server without a shared store refuses to start with it.
PEERS = "cluster.raft.peers"
#: Settings that are accepted but ignored, with a warning that says why.
IGNORED = {
    PEERS: "servers work together by sharing a PostgreSQL store",
    "cluster.raft": "servers work together by sharing a PostgreSQL store",
    "server.grpc": "Chronos has no gRPC API",
    "alerting": "alerts are not supported yet",
}
