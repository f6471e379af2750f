"""Restores masked values that a client sends back: each mask means "unchanged" and is replaced by the stored value.

A stored credential is kept only for the target that it was saved for. Otherwise a caller who may not read it could send
it to another host::

    http      the same scheme, host and port
    command   the same program, arguments, standard input, directory, user and environment
    others    the same function, or the same options

Tasks are matched by name. A mask that cannot be restored is rejected with its pointer.
"""

from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace
from yarl import URL

from chronos.core.credentials import (
    MASK,
    find_userinfos,
    hide_url_credentials,
    is_masked,
    mask_fields_by_name,
    mask_options,
)
from chronos.core.job import Job, JobSpec, Target, Unreadable
from chronos.core.lane import PYTHON
from chronos.service.serializers import Draft, InvalidJob, Problem
from chronos.service.serializers.json_values import extend_pointer

_HOOKS = ("on_start", "on_complete")
_EMPTY_SPEC = JobSpec()
_NEUTRAL_OPTIONS = ("limits", "success_codes")  # options of a command that cannot leak a credential
_NOTHING_STORED = "no value is stored"
_CHANGES = {
    "http": "the scheme, host or port of the url has changed",
    "command": "what the command runs has changed",
}


def restore_masked(draft: Draft, existing: Job | None) -> Draft:
    """Replace the masked values of a draft by stored ones. Raises ``InvalidJob`` with each value that cannot be
    restored.
    """
    stored = _EMPTY_SPEC if existing is None or isinstance(existing.spec, Unreadable) else existing.spec
    spec, pointers = draft.spec, draft.target_pointers or {}
    restorer = _Restorer(stored, spec)
    hooks = {hook: getattr(spec, hook) for hook in _HOOKS if getattr(spec, hook) is not None}
    spec = replace(
        spec,
        tasks=tuple(replace(task, target=restorer.target(task.name, pointers[task.name])) for task in spec.tasks),
        **{hook: restorer.target(f"/{hook}", pointers[f"/{hook}"]) for hook in hooks},
        description=restorer.text(spec.description, stored.description, "/description"),
        payload=restorer.payload(),
        alerts=restorer.alerts(),
    )
    if restorer.problems:
        raise InvalidJob(restorer.problems, name=draft.name)
    return replace(draft, spec=spec, target_pointers=None)


class _Restorer:
    """Replaces masked values of a sent spec by those of the stored spec; ``problems`` lists the failures."""

    def __init__(self, stored: JobSpec, sent: JobSpec) -> None:
        self._stored, self._sent = stored, sent
        self._old, self._new = _targets(stored), _targets(sent)
        self.problems: list[Problem] = []

    def target(self, name: str, pointer: str) -> Target:
        """Restore the target of a task or hook."""
        sent, stored = self._new[name], self._old.get(name)
        if stored is None or stored.kind != sent.kind:
            return replace(sent, options=self._options(sent.options, {}, pointer, _NOTHING_STORED))
        changed = None
        if _destination(stored, self._stored.payload) != _destination(sent, self._sent.payload):
            changed = _CHANGES.get(sent.kind, "what the task runs has changed")
        return replace(sent, options=self._options(sent.options, stored.options, pointer, changed))

    def payload(self) -> Any:
        """Restore the payload. It goes to every target, so all of them must be unchanged."""
        old = {name: _destination(target, self._stored.payload) for name, target in self._old.items()}
        new = {name: _destination(target, self._sent.payload) for name, target in self._new.items()}
        changed = None if old == new else "a target that the payload goes to has changed"
        return self._value(self._sent.payload, self._stored.payload, "/payload", changed)

    def alerts(self) -> tuple[dict[str, Any], ...]:
        """Restore the alerts, all or none."""
        sent, stored = self._sent.alerts, self._stored.alerts
        if not _any_masked(sent):
            return sent
        if mask_fields_by_name(list(sent)) == mask_fields_by_name(list(stored)):
            return stored
        self._refuse("/alerts", "the stored alerts are different")
        return sent

    def text(self, sent: str, stored: Any, pointer: str, changed: str | None = None) -> str:
        """Restore the user and password of URLs in a text. A stored pair is kept for the same host only."""
        masked = [userinfo for userinfo in find_userinfos(sent) if userinfo.text == MASK]
        if not masked:
            return sent
        stored_pairs = list(find_userinfos(stored)) if isinstance(stored, str) else []
        pieces, start = [], 0
        for userinfo in masked:
            pair = next((candidate for candidate in stored_pairs if candidate.server == userinfo.server), None)
            if changed is not None or pair is None:
                self._refuse(pointer, changed or _NOTHING_STORED)
                return sent
            stored_pairs.remove(pair)
            pieces += [sent[start : userinfo.begin], pair.text]
            start = userinfo.end
        return "".join((*pieces, sent[start:]))

    def _options(
        self, sent: Mapping[str, Any], stored: Mapping[str, Any], pointer: str, changed: str | None
    ) -> dict[str, Any]:
        options: dict[str, Any] = {}
        for option, value in sent.items():
            option_pointer, stored_value = extend_pointer(pointer, option), stored.get(option)
            if option in ("auth", "headers", "env") and isinstance(value, dict):
                find = _make_stored_lookup(stored_value, any_case=option == "headers")
                options[option] = {
                    name: self._entry(option, name, item, find(name), extend_pointer(option_pointer, name), changed)
                    for name, item in value.items()
                }
            else:
                options[option] = self._value(value, stored_value, option_pointer, changed)
        return options

    def _entry(self, option: str, name: str, sent: Any, stored: Any, pointer: str, changed: str | None) -> Any:
        if sent != MASK or not is_masked(option, name):
            return self._value(sent, stored, pointer, changed)
        if changed is not None or stored is None:
            self._refuse(pointer, changed or _NOTHING_STORED)
        return stored

    def _value(self, sent: Any, stored: Any, pointer: str, changed: str | None) -> Any:
        if isinstance(sent, str):
            return self.text(sent, stored, pointer, changed)
        if isinstance(sent, dict):
            find = _make_stored_lookup(stored)
            return {
                name: self._value(item, find(name), extend_pointer(pointer, name), changed)
                for name, item in sent.items()
            }
        if isinstance(sent, list):
            stored_pairs = stored if isinstance(stored, list) else []
            padded = [*stored_pairs, *[None] * len(sent)]
            return [self._value(item, padded[index], f"{pointer}/{index}", changed) for index, item in enumerate(sent)]
        return sent

    def _refuse(self, pointer: str, reason: str) -> None:
        self.problems.append(Problem(pointer, f'is masked ("{MASK}"), but {reason}; send the value itself'))


def find_masked_urls(payload: Any) -> list[Problem]:
    """Return a problem for each URL of a payload with masked credentials, because nothing is stored to restore them."""
    restorer = _Restorer(_EMPTY_SPEC, JobSpec(payload=payload))
    restorer.payload()
    return restorer.problems


def _targets(spec: JobSpec) -> dict[str, Target]:
    """Return the targets by task name. Hooks get names that no task can have."""
    tasks = {task.name: task.target for task in spec.tasks}
    hooks = {f"/{hook}": getattr(spec, hook) for hook in _HOOKS}
    return tasks | {name: hook for name, hook in hooks.items() if hook is not None}


def _destination(target: Target, payload: Any) -> tuple[Any, ...]:
    """Return what must stay the same for the credentials of a target to be kept."""
    match target.kind:
        case "http":
            return (target.kind, *_origin(str(target.options.get("url", "")), payload))
        case "command":
            shown = mask_options(target.options)
            return target.kind, {name: value for name, value in shown.items() if name not in _NEUTRAL_OPTIONS}
        case kind if kind == PYTHON:
            return kind, target.options.get("name")
        case kind:
            return kind, mask_options(target.options)


def _origin(url: str, payload: Any) -> tuple[Any, ...]:
    """Return scheme, host and port as the runner reads them. If the host is a template, return everything it depends
    on.
    """
    _, _, rest = url.partition("://")
    authority = rest.partition("/")[0]
    if not url.startswith(("http://", "https://")) or "{{" in authority or "\\" in url:
        return hide_url_credentials(url), hide_url_credentials(payload)
    try:
        parsed = URL(url)
        return parsed.scheme, (parsed.raw_host or "").lower(), parsed.port
    except ValueError:
        return (hide_url_credentials(url),)


def _make_stored_lookup(stored: Any, *, any_case: bool = False) -> Callable[[str], Any]:
    """Return a function from a name to the stored value, or None."""
    if not isinstance(stored, dict):
        return lambda name: None
    if not any_case:
        return stored.get
    lower = {name.lower(): value for name, value in stored.items()}
    return lambda name: lower.get(name.lower())


def _any_masked(value: Any) -> bool:
    if isinstance(value, str):
        return value == MASK or any(found.text == MASK for found in find_userinfos(value))
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return any(map(_any_masked, items))
