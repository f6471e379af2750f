"""Options of a ``command`` target, and what they become: arguments, environment, limits."""

import contextlib
import os
import pwd
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from chronos.core.calendar import rfc3339
from chronos.core.credentials import is_credential_name
from chronos.errors import Invalid
from chronos.runners import options as read
from chronos.runners.contract import AttemptCall
from chronos.runners.option_faults import OptionFaults
from chronos.runners.secret_mask import SecretMask
from chronos.runners.templates import Renderer, uuid_text

_KNOWN_OPTIONS = ("argv", "command", "shell", "env", "cwd", "user", "limits", "success_codes", "stdin")
_LIMIT_NAMES = ("cpu_s", "memory", "file_size", "files", "processes")
_BYTE_LIMIT_NAMES = ("memory", "file_size")
_INHERITED_VARIABLES = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "USER", "LOGNAME", "TMPDIR")
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_SHELL = "/bin/sh"
_MAX_PROCESSES = 1_000  # the default: enough for any build, too few for a fork bomb
_MAX_ENV_PAYLOAD_CHARS = 100_000  # the kernel limits the length of a variable
_CHRONOS_VARIABLES = (
    "CHRONOS_EXECUTION_ID",
    "CHRONOS_JOB",
    "CHRONOS_TASK",
    "CHRONOS_TASK_RUN_ID",
    "CHRONOS_ATTEMPT",
    "CHRONOS_ATTEMPT_ID",
    "CHRONOS_TOKEN",
    "CHRONOS_SCHEDULED_AT",
    "CHRONOS_SPAN_FROM",
    "CHRONOS_SPAN_TO",
    "CHRONOS_SPAN_COUNT",
    "CHRONOS_PAYLOAD",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandRules:
    """Rules of the node's operator for every command.

    ``user``: the system user of all commands; None: the node's own user, or the one that a job names.
    ``limits``: by the names of a job's limits. Each is the default and the maximum for jobs.
    """

    user: str | None = None
    limits: Mapping[str, int] = field(default_factory=dict)


NO_RULES = CommandRules()


def check(options: Mapping[str, Any], rules: CommandRules = NO_RULES, *, has_secrets: bool) -> None:
    """Raise ``InvalidOptions`` with every fault, if no program could be started with these options."""
    faults = OptionFaults("command", has_secrets=has_secrets)
    if not faults.add_unknown_options((), options, _KNOWN_OPTIONS):
        faults.raise_if_any()
    _check_program(options, faults)
    if "env" in options:
        _check_env(options["env"], faults)
    if "cwd" in options:
        cwd = faults.try_read(("cwd",), read.text, "command.cwd", options["cwd"], limit=4_096)
        if cwd is not None and not os.path.isabs(cwd):
            faults.add(("cwd",), f'command.cwd is "{cwd}"; use an absolute path')
    if "user" in options:
        faults.try_read(("user",), _find_user_of, options, rules)
    if "limits" in options:
        _check_server_limits(faults.try_read(("limits",), read_limits, options["limits"]) or {}, rules, faults)
    if "success_codes" in options:
        faults.try_read(("success_codes",), read_success_codes, options)
    stdin = options.get("stdin", False)
    if not isinstance(stdin, bool) and faults.try_read(("stdin",), read.text, "command.stdin", stdin) is not None:
        faults.add_bad_templates(("stdin",), stdin)
    faults.raise_if_any()


def build_start_request(
    call: AttemptCall, renderer: Renderer, mask: SecretMask, rules: CommandRules = NO_RULES
) -> dict[str, Any]:
    """Build the request for the supervisor. Adds the credentials in it to the mask.

    The current rules also apply to jobs that were saved under other rules.
    """
    options = call.options
    if options.get("shell"):
        argv = [_SHELL, "-c", options["command"]]
    else:
        argv = [renderer.text(f"command.argv[{i}]", str(item)) for i, item in enumerate(options["argv"])]
    if any("\0" in item for item in argv):
        raise Invalid("command.argv contains a NUL character; remove it")
    limits = dict(rules.limits)
    for name, limit in read_limits(options.get("limits", {})).items():
        limits[name] = min(limit, limits.get(name, limit))
    user = _find_user_of(options, rules)
    env = _build_environment(call, renderer, user)
    for name in options.get("env", {}):
        if is_credential_name(name):
            mask.add_credential(env[name])
    for text in (*argv, *env.values()):
        mask.add_urls(text)
    return {
        "argv": argv,
        "env": env,
        "cwd": options.get("cwd") or (_find_node_directory() if user is None else None),
        "user": None if user is None else user.pw_name,
        "limits": limits,
        "processes": limits.get("processes", _MAX_PROCESSES),
    }


def _find_node_directory() -> str | None:
    """Return the node's directory, for commands of the node's own user; None, which means /, if it is deleted."""
    with contextlib.suppress(OSError):  # the directory is deleted
        return os.getcwd()
    return None


def build_stdin(call: AttemptCall, renderer: Renderer) -> bytes | None:
    """Return the input of the command, or None."""
    stdin = call.options.get("stdin", False)
    if isinstance(stdin, bool):
        return msgspec.json.encode(call.payload) if stdin else None
    return renderer.text("command.stdin", stdin).encode("utf-8", "replace")


def read_success_codes(options: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the exit codes that mean success."""
    codes = options.get("success_codes", (0,))
    if not isinstance(codes, list | tuple) or not codes:
        raise Invalid("command.success_codes must be a list of exit codes such as [0, 2]")
    return tuple(read.whole_number("command.success_codes", code, 0, 255) for code in codes)


def _check_program(options: Mapping[str, Any], faults: OptionFaults) -> None:
    if "shell" in options and faults.try_read(("shell",), read.flag, "command.shell", options["shell"]):
        if "argv" in options:
            faults.add(("argv",), "command has both argv and shell; with shell, use command")
        script = faults.try_read(("command",), read.text, "command.command", options.get("command"))
        if script is not None and not script.strip():
            faults.add(("command",), "command.command is empty; give the shell something to run")
        return
    if "command" in options and faults.has_fault("shell"):
        faults.try_read(("command",), read.text, "command.command", options["command"])
    elif "command" in options:
        hint = 'add "shell": true, or use argv'
        faults.add(("command",), f"command.command needs a shell; {hint}")
    if "argv" in options or not ("command" in options or "shell" in options):
        _check_argv(options.get("argv"), faults)


def _check_argv(argv: Any, faults: OptionFaults) -> None:
    if not isinstance(argv, list | tuple) or not argv:
        example = '["pg_dump", "-f", "out"]'
        faults.add(("argv",), f"command.argv must be a list of the program and its arguments, such as {example}")
        return
    if len(argv) > 10_000:
        faults.add(("argv",), f"command.argv has {len(argv)} entries, allowed 10000")
        return
    for index, item in enumerate(argv):
        if faults.try_read(("argv", index), read.text_or_number, f"command.argv[{index}]", item) is not None:
            faults.add_bad_templates(("argv", index), item, secrets=False)
    if argv[0] == "":
        faults.add(("argv", 0), "command.argv[0] is empty; name a program")


def _check_env(env: Any, faults: OptionFaults) -> None:
    for name, value in faults.read_texts("env", env):
        if not name or "=" in name:
            shown = name.partition("=")[0][:80]  # the rest may be a credential
            faults.add(("env", name), f'command.env has "{shown}", which is not a valid variable name')
        if name in _CHRONOS_VARIABLES:
            faults.add(("env", name), f'command.env must not set "{name}"; Chronos sets it')
        faults.add_bad_templates(("env", name), value)


def _find_user_of(options: Mapping[str, Any], rules: CommandRules) -> pwd.struct_passwd | None:
    """Return the system user of a command; None: the node's own."""
    option = options.get("user")
    name = rules.user if option is None else read.text("command.user", option, limit=256)
    if rules.user is not None and name != rules.user:
        raise Invalid(
            f'command.user is "{name}", but this server runs every command as "{rules.user}" '
            "(dispatcher.command.user); remove it"
        )
    return None if name is None else find_user("command.user", name)


def find_user(where: str, name: str) -> pwd.struct_passwd:
    """Return a system user that this process can switch to. Raises ``Invalid``."""
    if os.geteuid() != 0:
        raise Invalid(f"{where} needs a node that runs as root, and this one does not")
    try:
        return pwd.getpwnam(name)
    except KeyError:
        raise Invalid(f'{where} is "{name}", but this machine has no such user') from None


def read_limits(value: Any) -> dict[str, int]:
    """Read limits by name, as numbers. Raises ``InvalidOptions`` with paths relative to ``limits``."""
    faults, limits = OptionFaults("command.limits"), {}
    if faults.add_unknown_options((), value, _LIMIT_NAMES):
        for name in _LIMIT_NAMES:
            if name not in value:
                continue
            limit = faults.try_read((name,), _read_limit, name, value[name])
            if limit is not None:
                limits[name] = limit
    faults.raise_if_any()
    return limits


def _check_server_limits(limits: Mapping[str, int], rules: CommandRules, faults: OptionFaults) -> None:
    """Add a fault for each limit above the server's."""
    for name, limit in limits.items():
        server_limit = rules.limits.get(name, limit)
        if limit > server_limit:
            most = f"this server allows at most {server_limit} (dispatcher.command.limits)"
            faults.add(("limits", name), f"command.limits.{name} is {limit}; {most}")


def _read_limit(name: str, value: object) -> int:
    where = f"command.limits.{name}"
    limit = read.size_bytes(where, value) if name in _BYTE_LIMIT_NAMES else read.whole_number(where, value, 1, 1 << 31)
    if name == "file_size" and limit < 1:
        raise Invalid("command.limits.file_size is 0; use at least 1")
    if name == "memory" and limit < 1 << 20:
        raise Invalid("command.limits.memory is less than 1MiB; no program starts with so little")
    if name == "files" and limit < 16:
        raise Invalid("command.limits.files is less than 16; most programs need more")
    return limit


def _build_environment(call: AttemptCall, renderer: Renderer, user: pwd.struct_passwd | None) -> dict[str, str]:
    """Build the environment: common variables, the job's, and Chronos' own. The node's secrets are not inherited."""
    env = {name: os.environ[name] for name in _INHERITED_VARIABLES if name in os.environ}
    env.setdefault("PATH", _PATH)
    env.setdefault("LANG", "C.UTF-8")
    if user is not None:
        env |= {"HOME": user.pw_dir, "USER": user.pw_name, "LOGNAME": user.pw_name}
    for name, template in call.options.get("env", {}).items():
        value = renderer.text(f"command.env.{name}", str(template))
        if "\0" in value:
            raise Invalid(f"command.env.{name} contains a NUL character; remove it")
        env[name] = value
    env |= {
        "CHRONOS_EXECUTION_ID": uuid_text(call.execution),
        "CHRONOS_JOB": call.job_name,
        "CHRONOS_TASK": call.task,
        "CHRONOS_TASK_RUN_ID": uuid_text(call.task_run_id),
        "CHRONOS_ATTEMPT": str(call.number),
        "CHRONOS_ATTEMPT_ID": uuid_text(call.attempt_id),
        "CHRONOS_TOKEN": str(call.token),
        "CHRONOS_SCHEDULED_AT": rfc3339(call.scheduled_us),
    }
    if (span := call.span) is not None:
        env["CHRONOS_SPAN_FROM"] = rfc3339(span.from_us)
        env["CHRONOS_SPAN_TO"] = rfc3339(span.to_us)
        env["CHRONOS_SPAN_COUNT"] = str(span.count)
    if call.payload is not None:
        payload = msgspec.json.encode(call.payload).decode()
        if len(payload) <= _MAX_ENV_PAYLOAD_CHARS and "\0" not in payload:
            env["CHRONOS_PAYLOAD"] = payload
    return env
