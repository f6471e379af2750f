"""Templates in a target's options: ``{{ payload.order.id }}`` becomes the value with that name.

A text that is a single placeholder becomes the value itself, with its type. Within a longer text, values other than
text are written as JSON.
"""

from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from chronos.core.calendar import rfc3339
from chronos.core.planner import CoveredSpan
from chronos.core.templates import ABSENT, Name, Part, format_value, resolve_key, split_template
from chronos.errors import Invalid, NotFound
from chronos.runners.contract import AttemptCall
from chronos.runners.secret_mask import SecretMask

SecretLookup = Callable[[str], str | None]  # from a name to its value; None: not found

SECRET = "secret"  # the first key of a secret's name
_MAX_DEPTH = 64


def no_secrets(name: str) -> str | None:
    """The lookup of a node without secrets. Jobs that name a secret are rejected; stored ones fail at once."""
    return None


def secrets_unsupported_error(where: str, name: Name) -> Invalid:
    """Build the error for a placeholder that names a secret on a node without secrets."""
    return Invalid(
        f'{where}: "{".".join(name)}" cannot be used: Chronos does not support secrets yet; write the value itself'
    )


def check_template(where: str, value: Any, *, secrets: bool = True, has_secrets: bool = True, depth: int = 0) -> None:
    """Raise ``Invalid`` if the value contains a placeholder that can never be replaced.

    ``secrets``: whether secrets are allowed here. ``has_secrets``: whether the node has secrets.
    """
    if depth > _MAX_DEPTH:
        raise Invalid(f"{where} is nested more than {_MAX_DEPTH} levels deep")
    match value:
        case str():
            for name in _placeholder_names(where, value):
                if name[0] == SECRET and not has_secrets:
                    raise secrets_unsupported_error(where, name)
                _check_name(where, name, secrets)
        case Mapping():
            for key, item in value.items():
                check_template(f"{where}.{key}", item, secrets=secrets, has_secrets=has_secrets, depth=depth + 1)
        case list() | tuple():
            for index, item in enumerate(value):
                check_template(f"{where}[{index}]", item, secrets=secrets, has_secrets=has_secrets, depth=depth + 1)
        case _:
            pass


def is_template(text: str) -> bool:
    """Whether a text contains placeholders."""
    return "{{" in text


def has_secret_placeholder(text: str) -> bool:
    """Whether a template names a secret."""
    return is_template(text) and any(name[0] == "secret" for name in _placeholder_names("", text))


class Renderer:
    """Replaces the placeholders of one call's options. Adds the secrets that it uses to the mask."""

    __slots__ = ("_call", "_mask", "_secrets")

    def __init__(self, call: AttemptCall, secrets: SecretLookup, mask: SecretMask) -> None:
        self._call = call
        self._secrets = secrets
        self._mask = mask

    def text(self, where: str, template: str, encode: Callable[[str, bool], str] | None = None) -> str:
        """Render a text. ``encode(value, is_secret)`` prepares each value for its place."""
        if "{{" not in template:
            return template
        rendered = []
        for part in _split(where, template):
            if isinstance(part, str):
                rendered.append(part)
                continue
            text = format_value(self._lookup(where, part))
            rendered.append(text if encode is None else encode(text, part[0] == "secret"))
        return "".join(rendered)

    def value(self, where: str, template: Any) -> Any:
        """Render every text within a value; keys stay unchanged."""
        match template:
            case str() if "{{" in template:
                parts = _split(where, template)
                if len(parts) == 1 and not isinstance(parts[0], str):
                    return self._lookup(where, parts[0])
                return self.text(where, template)
            case Mapping():
                return {key: self.value(f"{where}.{key}", item) for key, item in template.items()}
            case list() | tuple():
                return [self.value(f"{where}[{index}]", item) for index, item in enumerate(template)]
            case _:
                return template

    def _lookup(self, where: str, name: Name) -> Any:
        field = _FIELDS.get(name)
        if field is not None:
            return field(self._call)
        _check_name(where, name, True)
        if name[0] == "secret":
            if self._secrets is no_secrets:
                raise secrets_unsupported_error(where, name)
            return self._secret(where, name[1])
        value = self._call.payload
        for key in name[1:]:
            item = resolve_key(key, value)
            if item is ABSENT:
                raise Invalid(f'{where}: "{".".join(name)}" does not exist; {_suggest_key(key, value)}')
            value = item
        return value

    def _secret(self, where: str, name: str) -> str:
        value = self._secrets(name)
        if value is None:
            raise NotFound(f'{where}: secret "{name}" does not exist; create it or correct the name')
        self._mask.add(value)
        return value


def uuid_text(raw: bytes) -> str:
    """Format an id as a UUID. ``uuid.UUID`` does the same ten times slower."""
    text = raw.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def _format_optional_instant(us: int | None) -> str | None:
    return None if us is None else rfc3339(us)


def _covered_span(call: AttemptCall) -> CoveredSpan:
    """Return the span of a compressed recovery. Every other run covers its own instant."""
    return call.span or CoveredSpan(from_us=call.scheduled_us, to_us=call.scheduled_us, count=1)


_FIELDS: dict[Name, Callable[[AttemptCall], Any]] = {
    ("execution", "id"): lambda call: uuid_text(call.execution),
    ("execution", "task"): lambda call: call.task,
    ("execution", "task_run_id"): lambda call: uuid_text(call.task_run_id),
    ("execution", "attempt"): lambda call: call.number,
    ("execution", "attempt_id"): lambda call: uuid_text(call.attempt_id),
    ("execution", "token"): lambda call: call.token,
    ("execution", "scheduled_at"): lambda call: rfc3339(call.scheduled_us),
    ("execution", "started_at"): lambda call: rfc3339(call.started_us),
    ("execution", "deadline"): lambda call: _format_optional_instant(call.deadline_us),
    ("execution", "last_run_at"): lambda call: _format_optional_instant(call.last_run_us),
    ("job", "id"): lambda call: uuid_text(call.job),
    ("job", "name"): lambda call: call.job_name,
    ("job", "namespace"): lambda call: call.namespace,
    ("span", "from"): lambda call: rfc3339(_covered_span(call).from_us),
    ("span", "to"): lambda call: rfc3339(_covered_span(call).to_us),
    ("span", "count"): lambda call: _covered_span(call).count,
}
_ROOTS = ("execution", "job", "span", "payload", "secret")


def _placeholder_names(where: str, template: str) -> Iterator[Name]:
    return (part for part in _split(where, template) if not isinstance(part, str)) if "{{" in template else iter(())


def _split(where: str, template: str) -> tuple[Part, ...]:
    try:
        return split_template(template)
    except Invalid as error:
        raise Invalid(f"{where} {error}") from None


def _check_name(where: str, name: Name, secrets: bool) -> None:
    root, text = name[0], ".".join(name)
    if root not in _ROOTS:
        raise Invalid(f'{where}: "{text}" is unknown; {_suggest_key(root, dict.fromkeys(_ROOTS))}')
    if root == "secret":
        if not secrets:
            raise Invalid(f'{where}: "{text}" would be visible to everyone on this machine; use env or stdin')
        if len(name) != 2:
            raise Invalid(f'{where}: "{text}" is not a valid secret name; write secret.NAME')
    elif root != "payload" and name not in _FIELDS:
        known = {field[1]: None for field in _FIELDS if field[0] == root}
        raise Invalid(f'{where}: "{text}" is unknown; {_suggest_key(".".join(name[1:]), known)}')


def _suggest_key(key: str, value: Any) -> str:
    if not isinstance(value, Mapping) or not value:
        return f'the value before it has no "{key}"'
    near = get_close_matches(key, [str(name) for name in value], n=1, cutoff=0.5)
    if near:
        return f'did you mean "{near[0]}"?'
    return f"use one of {', '.join(str(name)[:40] for name in list(value)[:10])}"
