"""The configuration: every setting from a file and from a variable, its errors and the origins of its values."""

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest

from chronos.api import CommandAuthor
from chronos.api.errors import Unauthenticated
from chronos.assembly import make_store
from chronos.clock import SystemClock
from chronos.core.config import DEFAULTS, Overlap, resolve_settings
from chronos.errors import Invalid
from chronos.server.config import Config, load_config, read_config
from chronos.server.config_display import format_duration, format_size, setting_rows
from chronos.server.process import banner
from chronos.server.settings import BY_NAME, IGNORED, SETTINGS
from chronos.server.wiring import ALL_ROLES, api_options, check_config, engine_options, make_access
from tests.support.api_server import BCRYPT, basic
from tests.support.server_process import EXAMPLE

SHARED = "postgresql://chronos@db.example/chronos"
PAGE = Path(__file__).parent.parent.parent / "docs" / "reference" / "configuration.md"

# Setting, value in a file, value in a variable, parsed value.
GOOD: list[tuple[str, Any, str, Any]] = [
    ("store", "sqlite:///a.db", "sqlite:///a.db", "sqlite:///a.db"),
    ("cluster.data_dir", "/var/lib/chronos", "/var/lib/chronos", "/var/lib/chronos"),
    ("server.listen", "[::1]:9", "[::1]:9", ("::1", 9)),
    ("server.listen", ":80", ":80", ("0.0.0.0", 80)),
    ("server.base_path", "/chronos", "/chronos", "/chronos"),
    ("server.request_limit", "3KiB", "3072", 3072),
    ("server.request_timeout", "1m30s", "90", 90.0),
    ("server.write_timeout", "5s", "5s", 5.0),
    ("server.insecure", True, "yes", True),
    ("server.hosts", ["a.example", "b.example"], "a.example, b.example", ("a.example", "b.example")),
    ("server.public_docs", False, "no", False),
    ("server.trusted_proxies", ["10.0.0.0/8", "::1"], "10.0.0.0/8, ::1", ("10.0.0.0/8", "::1")),
    ("node.id", "a", "a", "a"),
    ("node.labels", {"region": "eu", "zone": "a"}, "region=eu, zone=a", {"region": "eu", "zone": "a"}),
    ("node.queues", ["mail"], "mail", ("mail",)),
    ("scheduler.lookahead", "10s", "10s", 10.0),
    ("scheduler.tick_interval", 2, "2", 2.0),
    ("scheduler.reaper_interval", "PT1M", "PT1M", 60.0),
    ("scheduler.heartbeat_interval", "500ms", "500ms", 0.5),
    ("scheduler.heartbeat_timeout", 1.5, "1500ms", 1.5),
    ("scheduler.grace_period", "0s", "0", 0.0),
    ("scheduler.timeout_grace", "500ms", "500ms", 0.5),
    ("dispatcher.max_concurrent", 7, "7", 7),
    ("dispatcher.queue_slots", {"mail": 2}, "mail=2", {"mail": 2}),
    ("dispatcher.per_job_limit", 3, "3", 3),
    ("dispatcher.targets", ["http", "wait"], "http,wait", ("http", "wait")),
    ("dispatcher.targets", None, "", None),
    ("dispatcher.command.roles", ["namespace_admin"], "namespace_admin", ("namespace_admin",)),
    ("dispatcher.command.roles", [], "", ()),
    ("dispatcher.command.user", "jobs", "jobs", "jobs"),
    ("dispatcher.command.limits", {"memory": "1MiB"}, '{"memory": "1MiB"}', {"memory": 1 << 20}),
    ("dispatcher.http.timeout", "5s", "5s", 5.0),
    ("dispatcher.http.max_idle_conns", 0, "0", 0),
    ("dispatcher.http.idle_conn_timeout", "90s", "90s", 90.0),
    ("dispatcher.http.allow_private", "on", "1", True),
    ("dispatcher.http.allow_hosts", ["intranet"], "intranet", ("intranet",)),
    ("dispatcher.http.allow_hosts", ["a", "[::1]"], '["a", "[::1]"]', ("a", "[::1]")),
    ("dispatcher.http.allow_hosts", ["[::1]"], "[::1]", ("[::1]",)),
    ("defaults.retry.max_attempts", None, "null", 0),
    ("defaults.retry.max_attempts", 5, "5", 5),
    ("defaults.retry.initial_interval", "2s", "2s", 2.0),
    ("defaults.retry.multiplier", 1, "1.0", 1.0),
    ("defaults.retry.max_interval", "1d", "1d", 86_400.0),
    ("defaults.retry.timeout_multiplier", 2, "2.0", 2.0),
    ("defaults.execution_timeout", "2h", "2h", 7_200.0),
    ("defaults.task_timeout", "1m", "1m", 60.0),
    ("defaults.overlap", "queue", "queue", "queue"),
    ("defaults.overlap", "forbid", "forbid", "skip"),
    ("defaults.recovery", "compressed", "compressed", "compressed"),
    ("defaults.mode", "parallel", "parallel", "parallel"),
    ("defaults.on_failure", "continue", "continue", "continue"),
    ("defaults.retry.jitter", 0, "0", 0.0),
    ("defaults.retry.retry_on", ["ValueError"], "ValueError", ("ValueError",)),
    ("defaults.delivery", "at_most_once", "at_most_once", "at_most_once"),
    ("defaults.recovery.max_count", 5, "5", 5),
    ("defaults.recovery.max_age", "1h", "1h", 3_600.0),
    ("defaults.recovery.after", "1m", "1m", 60.0),
    ("defaults.priority", 10, "10", 10),
    ("defaults.update", "graceful", "graceful", "graceful"),
    ("defaults.update.count", 3, "3", 3),
    ("defaults.update.duration", "1h", "1h", 3_600.0),
    ("defaults.concurrency.limit", 4, "4", 4),
    ("defaults.concurrency.key", "{{ namespace }}", "{{ namespace }}", "{{ namespace }}"),
    ("defaults.retention.max_count", 9, "9", 9),
    ("defaults.retention.max_age", "30d", "30d", 2_592_000.0),
    ("defaults.queue", "slow", "slow", "slow"),
    ("defaults.queue_max", 5, "5", 5),
    ("defaults.placement.labels", {"region": "eu"}, "region=eu", {"region": "eu"}),
    ("defaults.placement.fallback", "5m", "5m", 300.0),
    ("defaults.recovery", "SKIP_MISSED", "SKIP_MISSED", "skip"),
    ("defaults.recovery", "RUN_ONCE", "RUN_ONCE", "compressed"),
    ("defaults.recovery", "RUN_ALL", "RUN_ALL", "all"),
    ("queue.max_pending", 5, "5", 5),
    ("queue.submit_rate", 0.5, "0.5", 0.5),
    ("queue.submit_rate", None, "", None),
    ("auth.type", "basic", "basic", "basic"),
    ("auth.users", {"a": {"role": "admin"}}, '{"a": {"role": "admin"}}', {"a": {"role": "admin"}}),
    ("auth.tokens", {"a": {"role": "admin"}}, '{"a": {"role": "admin"}}', {"a": {"role": "admin"}}),
    ("logging.level", "debug", "debug", "debug"),
    ("logging.format", "json", "json", "json"),
    ("logging.output", "stdout", "stdout", "stdout"),
    ("metrics.prometheus.enabled", False, "off", False),
    ("metrics.prometheus.path", "/a/b", "/a/b", "/a/b"),
    ("metrics.per_job", False, "off", False),
    ("ui.enabled", False, "off", False),
    ("ui.read_only", True, "on", True),
    ("ui.timezone", "Europe/Paris", "Europe/Paris", "Europe/Paris"),
]

# Setting, value in a file, part of the error.
BAD: list[tuple[str, Any, str]] = [
    ("store", 5, "expected text"),
    ("server.listen", "8080", "expected HOST:PORT"),
    (
        "ui.timezone",
        "Europe/Pari",
        "expected a time zone: unknown time zone 'Europe/Pari'; did you mean 'Europe/Paris'?",
    ),
    ("server.listen", "::1:8080", "expected HOST:PORT"),
    ("server.listen", "a:65536", "expected HOST:PORT"),
    ("server.listen", "a:²", "expected HOST:PORT"),
    ("server.request_limit", "2 parsecs", "expected a size such as 2MiB"),
    ("server.request_limit", "0MiB", "expected a size such as 2MiB"),
    ("server.request_limit", True, "expected a size such as 2MiB"),
    ("server.request_timeout", "soon", "expected a duration such as 30s"),
    ("server.request_timeout", -1, "expected a duration"),
    ("server.request_timeout", [], "expected a duration"),
    ("server.request_timeout", True, "expected a duration"),
    ("server.request_timeout", "99999999999999999999h", "expected a duration"),
    ("server.insecure", "perhaps", "expected true or false"),
    ("server.hosts", [1], "expected a list of texts"),
    ("server.trusted_proxies", ["10.0.0.1/8"], "expected addresses or networks"),
    ("server.trusted_proxies", ["proxy.example"], "expected addresses or networks"),
    ("node.labels", {"a": 1}, "expected names and texts"),
    ("node.labels", "region", "expected names and texts"),
    ("dispatcher.queue_slots", {"mail": 0}, "expected a whole number from 1"),
    ("dispatcher.queue_slots", 5, "expected names and numbers"),
    ("dispatcher.max_concurrent", 0, "expected a whole number from 1"),
    ("dispatcher.max_concurrent", "²", "expected a whole number"),
    ("dispatcher.max_concurrent", 1.5, "expected a whole number"),
    ("dispatcher.targets", [], "expected a list of at least one text, or nothing"),
    ("dispatcher.command.roles", ["operator"], "expected a list of admin, namespace_admin"),
    ("dispatcher.command.limits", {"cpu": 1}, 'has no option "cpu"; did you mean "cpu_s"?'),
    ("dispatcher.command.limits", {"files": 1}, "limits.files is less than 16"),
    ("dispatcher.command.limits", 5, "expected a mapping"),
    ("defaults.retry.max_attempts", 0, "expected a whole number from 1"),
    ("defaults.retry.multiplier", ".nan", "expected a number, at least 1"),
    ("defaults.retry.multiplier", 0.5, "expected a number, at least 1"),
    ("defaults.overlap", "forbidden", "expected one of skip, allow, queue, replace, forbid"),
    ("defaults.recovery", [], "expected one of"),
    ("defaults.retry.jitter", 2, "expected a number from 0 to 1"),
    ("defaults.priority", 11, "expected a whole number from 1 to 10"),
    ("defaults.queue", "a b", "expected the name of a queue"),
    ("defaults.concurrency.key", "{{ secret.x }}", 'expected a template: it uses unknown name "secret.x"'),
    ("defaults.update", "later", "expected one of immediate, graceful, windowed"),
    ("queue.submit_rate", 0, "expected a number above 0"),
    ("auth.type", "oauth", "expected one of none, basic"),
    ("auth.users", "ana", "expected a mapping"),
    ("cluster.data_dir", "/", "expected the path of a folder"),
    ("cluster.data_dir", "", "expected the path of a folder"),
    ("dispatcher.per_job_limit", -1, "expected a whole number from 0"),
    ("logging.output", "/var/log/chronos.log", "expected one of stderr, stdout"),
    ("metrics.prometheus.path", "metrics", "expected a path such as /metrics"),
    ("metrics.prometheus.path", "/{name}", "expected a path such as /metrics"),
    ("logging.level", "loud", "expected one of debug, info, warning, error"),
]


def nested(name: str, value: Any) -> dict[str, Any]:
    *outer, last = name.split(".")
    found: dict[str, Any] = {last: value}
    for section in reversed(outer):
        found = {section: found}
    return found


def write_config(folder: Path, value: Any) -> Path:
    """JSON is YAML too."""
    path = folder / "chronos.yaml"
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return path


def variable(name: str) -> str:
    return "CHRONOS_" + name.upper().replace(".", "__")


def load_text(folder: Path, text: str = "{}", **variables: str) -> Config:
    return load_config(write_config(folder, text), variables, {})


def test_every_setting_has_a_row() -> None:
    assert {name for name, *_ in GOOD} == set(BY_NAME)


@pytest.mark.parametrize(("name", "in_file", "in_variable", "parsed"), GOOD)
def test_a_setting_is_read_from_a_file_and_a_variable(
    tmp_path: Path, name: str, in_file: Any, in_variable: str, parsed: Any
) -> None:
    path = write_config(tmp_path, nested(name, in_file))
    config = load_config(path, {}, {})
    assert (config[name], config.origins[name]) == (parsed, str(path))
    config = load_config(write_config(tmp_path, "{}"), {variable(name): in_variable}, {})
    assert (config[name], config.origins[name]) == (parsed, variable(name))


@pytest.mark.parametrize(("name", "value", "expected"), BAD)
def test_an_invalid_value_is_rejected_with_its_origin(tmp_path: Path, name: str, value: Any, expected: str) -> None:
    path = write_config(tmp_path, nested(name, value))
    with pytest.raises(Invalid) as caught:
        load_config(path, {}, {})
    assert f"{path}: {name} is " in str(caught.value)
    assert expected in str(caught.value)


def test_every_setting_is_documented_with_its_default() -> None:
    page = PAGE.read_text()
    settings, _, _ = page.partition("## PostgreSQL URLs")
    documented = dict(re.findall(r"^\| `([a-z_.]+)` \| (.*?) \|", settings, re.MULTILINE))
    assert list(documented) == [setting.name for setting in SETTINGS]
    for row in setting_rows(load_config(None, {}, {})):
        if row.text != "-":
            assert documented[row.name] == f"`{row.text}`"
    assert not {name for name in IGNORED if f"`{name}`" not in page}


def test_the_defaults_are_valid() -> None:
    config = load_config(None, {}, {})
    assert not check_config(config)
    assert {config.origins[setting.name] for setting in SETTINGS} == {"default"}
    assert config["store"] == "sqlite:///chronos-data/chronos.db"
    assert resolve_settings(config.defaults()) == resolve_settings(DEFAULTS)


def test_variables_override_files_and_flags_override_both(tmp_path: Path) -> None:
    path = write_config(tmp_path, {"store": "sqlite:///file.db", "node": {"id": "file"}, "metrics": {"per_job": False}})
    variables = {"CHRONOS_STORE": "sqlite:///variable.db", "CHRONOS_NODE__ID": "variable"}
    config = load_config(path, variables, {"node.id": "flag", "store": None})
    found = {name: (config[name], config.origins[name]) for name in ("store", "node.id", "metrics.per_job")}
    assert found == {
        "store": ("sqlite:///variable.db", "CHRONOS_STORE"),
        "node.id": ("flag", "--node-id"),
        "metrics.per_job": (False, str(path)),
    }


def test_unknown_settings_are_reported_with_suggestions(tmp_path: Path) -> None:
    path = write_config(tmp_path, {"server": {"lisen": "a:1"}, "zzz": 1})
    variables = {"CHRONOS_SERVER__LISTNE": "a:1", "CHRONOS_SERVER_LISTEN": "a:1", "CHRONOS_TOKEN": "t", "PATH": "/"}
    with pytest.raises(Invalid) as caught:
        load_config(path, variables, {})
    assert str(caught.value).splitlines() == [
        "the configuration is invalid:",
        f"  {path}: unknown setting server.lisen; did you mean server.listen?",
        f"  {path}: unknown setting zzz",
        "  CHRONOS_SERVER_LISTEN: use two underscores between the parts of a name: CHRONOS_SERVER__LISTEN",
        "  CHRONOS_SERVER__LISTNE: unknown setting server.listne; did you mean server.listen?",
    ]


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("server: 5", "server is 5, expected a mapping of settings"),
        ("- a\n- b", "must contain one mapping of settings"),
        ("a: 1\n---\nb: 2", "must contain one mapping of settings"),
        ("store: a\nstore: b", 'line 2: the key "store" is given twice'),
        ("store: [", "line 1"),
        ("store: !!python/object:os.system a", "line 1"),
    ],
)
def test_an_invalid_file_is_rejected(tmp_path: Path, text: str, part: str) -> None:
    with pytest.raises(Invalid) as caught:
        load_text(tmp_path, text)
    assert part in str(caught.value)


@pytest.mark.parametrize("text", ["", "server:\n", "server: {}\ndispatcher: {http: {}}", "# nothing"])
def test_an_empty_file_means_the_defaults(tmp_path: Path, text: str) -> None:
    assert load_text(tmp_path, text).values == load_config(None, {}, {}).values


def test_a_binary_file_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "chronos.yaml"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(Invalid, match="cannot be read"):
        load_config(path, {}, {})


def test_contradicting_settings_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="heartbeat_timeout must be at least twice"):
        check_config(load_text(tmp_path, "scheduler: {heartbeat_timeout: 15s}"))
    with pytest.raises(Invalid, match=r"server\.base_path"):
        check_config(load_text(tmp_path, "server: {base_path: chronos/}"))
    with pytest.raises(Invalid, match=r"auth\.users\.ana needs a password_hash"):
        check_config(load_text(tmp_path, "auth: {type: basic, users: {ana: {role: admin}}}"))
    with pytest.raises(Invalid, match=r"\"a b\" of auth\.tokens\.ci"):
        check_config(load_text(tmp_path, f"auth: {{tokens: {{ci: {{token_hash: {'f' * 64}, namespaces: [a b]}}}}}}"))
    for path in ("/healthz", "/api/v1/jobs", "/api/v1/x"):
        with pytest.raises(Invalid, match=r"metrics\.prometheus\.path .* is a path of the API; choose another"):
            check_config(load_text(tmp_path, f"metrics: {{prometheus: {{path: {path}}}}}"))
    with pytest.raises(Invalid, match="unknown store"):
        check_config(load_text(tmp_path, "store: redis://x"))


def test_every_problem_is_reported_at_once_with_its_origin(tmp_path: Path) -> None:
    path = tmp_path / "chronos.yaml"
    path.write_text("sever: {listen: 1}\nauth: {type: basc}\nscheduler: {heartbeat_timeout: 5s}\nstore: redis://x")
    with pytest.raises(Invalid) as caught:
        check_config(read_config(path, {}, {}))
    _, *problems = str(caught.value).splitlines()
    assert len(problems) == 4
    assert all(problem.startswith(f"  {path}: ") for problem in problems)
    assert problems[0].endswith("unknown setting sever.listen; did you mean server.listen?")


@pytest.mark.parametrize(
    ("text", "suggestion"),
    [
        ("sever: 5", "server"),
        ("sever: {base_pth: /x}", "server.base_path"),
        ("servr: {never_heard_of_it: 1}", "server"),
        ("store_url: x", "store"),
    ],
)
def test_an_unknown_name_gets_a_suggestion(tmp_path: Path, text: str, suggestion: str) -> None:
    with pytest.raises(Invalid, match=f"did you mean {suggestion}[?]"):
        load_text(tmp_path, text)


def test_secrets_are_not_shown(tmp_path: Path) -> None:
    with pytest.raises(Invalid) as caught:
        load_text(tmp_path, "auth: {users: hunter2}")
    assert "hunter2" not in str(caught.value)
    with pytest.raises(Invalid) as caught:
        load_text(tmp_path, CHRONOS_AUTH__TOKENS="hunter2")
    assert "hunter2" not in str(caught.value)
    config = load_text(
        tmp_path, CHRONOS_STORE="postgresql://ana:hunter2@db/x", CHRONOS_AUTH__USERS='{"ana": "hunter2"}'
    )
    shown = {row.name: row.text for row in setting_rows(config)}
    assert (shown["store"], shown["auth.users"]) == ("postgresql://ana:…@db/x", "ana: …")
    assert not [row for row in setting_rows(config) if "hunter2" in str(row)]


def test_the_example_of_the_requirements_loads_unchanged(tmp_path: Path) -> None:
    config = load_text(tmp_path, EXAMPLE.read_text(), CHRONOS_STORE=SHARED)
    warnings = check_config(config)
    assert (config["node.id"], config["server.listen"]) == ("chronos-1", ("0.0.0.0", 8080))
    assert (config["server.write_timeout"], config["logging.output"]) == (30.0, "stdout")
    assert (config["dispatcher.http.max_idle_conns"], config["dispatcher.http.idle_conn_timeout"]) == (100, 90.0)
    assert resolve_settings(config.defaults()).limit == 1
    assert resolve_settings(config.defaults()).execution_timeout_us == 300_000_000
    assert resolve_settings(config.defaults()).retry_max_us == 60_000_000
    assert engine_options(config, ALL_ROLES).slots == 100
    ignored = {match[1] for warning in warnings if (match := re.search(r"(\S+) is ignored", warning))}
    assert ignored == {
        "cluster.data_dir",
        "cluster.raft.address",
        "cluster.raft.peers",
        "server.grpc.address",
        "alerting.slack.webhook_url",
        "alerting.slack.channel",
        "alerting.pagerduty.routing_key",
    }
    assert any("auth.users.admin cannot log in" in warning for warning in warnings)
    assert any("no user can log in" in warning for warning in warnings)
    access = make_access(config, SystemClock(), make_store("sqlite://"))
    assert (access.open, access.users) == (False, {})


def test_peers_need_a_shared_store(tmp_path: Path) -> None:
    config = load_text(tmp_path, EXAMPLE.read_text())
    assert config["store"] == "sqlite:////var/lib/chronos/chronos.db"
    with pytest.raises(Invalid) as caught:
        check_config(config)
    assert str(caught.value) == (
        "the configuration is invalid:\n"
        f"  {tmp_path}/chronos.yaml: cluster.raft.peers names other servers, but the store is not shared, so "
        "each server would run every job; set store to one PostgreSQL database for all of them "
        "(postgresql://user@host/database), or remove cluster.raft.peers"
    )
    for text in ("cluster: {raft: {peers: {b: b:7000}}}", "cluster: {raft: {peers: b:7000}}"):
        with pytest.raises(Invalid, match="the store is not shared"):
            check_config(load_text(tmp_path, text, CHRONOS_STORE="sqlite://"))
    for text in ("cluster: {raft: {peers: []}}", "cluster: {raft: {address: a:7000}}"):
        assert check_config(load_text(tmp_path, text))


def test_data_dir_sets_the_store(tmp_path: Path) -> None:
    for folder, store in (("jobs", "sqlite:///jobs/chronos.db"), ("/a/b/", "sqlite:////a/b/chronos.db")):
        config = load_text(tmp_path, f"cluster: {{data_dir: {folder}}}")
        assert (config["store"], config.warnings) == (store, ())
    config = load_text(tmp_path, "cluster: {data_dir: jobs}", CHRONOS_STORE="sqlite://")
    assert (config["store"], config.origins["store"]) == ("sqlite://", "CHRONOS_STORE")
    assert [*config.warnings] == [
        f"{tmp_path}/chronos.yaml: cluster.data_dir is ignored, because CHRONOS_STORE sets store"
    ]


def test_an_unset_task_timeout_is_not_a_default_of_jobs(tmp_path: Path) -> None:
    """Otherwise the built-in default of tasks would apply to webhooks, which have their own."""
    assert load_config(None, {}, {}).defaults().task_timeout_us is None
    assert load_text(tmp_path, "defaults: {task_timeout: 5m}").defaults().task_timeout_us == 300_000_000


def test_the_banner_has_commands_to_paste(tmp_path: Path) -> None:
    """With auth, the first command is a login, so that no password is on a command line."""
    address = "http://127.0.0.1:9"
    assert f"chronosctl --server {address} jobs create" in banner(load_config(None, {}, {}), address, is_new=True)
    text = banner(load_text(tmp_path, "auth: {type: basic}"), address, is_new=True)
    first = text.partition("Create your first one:\n")[2].splitlines()
    assert first == [
        f"  chronosctl login {address}",
        "  chronosctl jobs create hello --every 10s -- echo hi",
        "  chronosctl executions watch hello",
    ]
    text = banner(load_text(tmp_path, "dispatcher: {targets: [http]}"), address, is_new=True)
    assert "jobs create hello --every 10s --url https://example.com/" in text


def test_an_unknown_kind_of_target_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(
        Invalid, match=r'dispatcher.targets has the unknown kind "comand"; use command, http, python, wait'
    ):
        check_config(load_text(tmp_path, "dispatcher: {targets: [comand]}"))


def test_command_roles_set_the_authors_of_commands(tmp_path: Path) -> None:
    assert api_options(load_text(tmp_path)).command_authors == {CommandAuthor.ADMIN}
    config = load_text(tmp_path, "dispatcher: {command: {roles: [namespace_admin]}}")
    assert api_options(config).command_authors == {CommandAuthor.NAMESPACE_ADMIN}


def test_an_unknown_command_user_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match=r'dispatcher.command.user is "no-such-user", but this machine has no such user'):
        check_config(load_text(tmp_path, "dispatcher: {command: {user: no-such-user}}"))


def test_the_example_with_a_complete_hash_allows_its_user(tmp_path: Path) -> None:
    text = EXAMPLE.read_text().replace("$2a$10$...", BCRYPT)
    config = load_text(tmp_path, text, CHRONOS_STORE=SHARED)
    assert not [warning for warning in check_config(config) if "auth" in warning]

    async def log_in(password: str) -> str:
        access = make_access(config, SystemClock(), make_store("sqlite://"))
        return (await access.principal(basic("admin", password), "::1")).name

    assert asyncio.run(log_in("secret")) == "admin"
    with pytest.raises(Unauthenticated):
        asyncio.run(log_in("Secret"))


def test_displayed_values_can_be_read_back(tmp_path: Path) -> None:
    config = load_config(None, {}, {})
    for row in setting_rows(config):
        if row.value not in (None, {}, []):
            assert BY_NAME[row.name].read(row.value) == config[row.name], row.name
    assert [format_duration(seconds) for seconds in (0, 0.5, 90, 5400, 86_400)] == [
        "0s",
        "0.5s",
        "1m30s",
        "1h30m",
        "24h",
    ]
    assert [format_size(count) for count in (1, 1024, 2 << 20, 1 << 30)] == ["1B", "1KiB", "2MiB", "1GiB"]
    assert Overlap(config["defaults.overlap"]) is Overlap.SKIP
