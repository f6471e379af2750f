"""The reader of jobs with its memory: jobs that come by the thousand often differ in their names alone."""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from chronos.core.job import DEFAULT_NAMESPACE
from chronos.service.serializers.identifiers import fault_of_name
from chronos.service.serializers.job import Check, Draft, read_job
from chronos.service.serializers.json_values import plain
from chronos.service.serializers.problems import Problem

_LARGE = 2 * 1024  # bytes of a job that is not worth keeping
_MOST_KEPT = 4_096


class JobReader:
    """Reads jobs with ``read_job``; of one that says what another said, it gives that draft under the new name."""

    def __init__(self, checks: Mapping[str, Check]) -> None:
        self._checks = checks
        self._kept: dict[bytes, Draft] = {}

    def read(self, data: Any, *, namespace: str = DEFAULT_NAMESPACE) -> Draft:
        """The job that a caller wrote. Raises ``InvalidJob``, see ``read_job``."""
        name, key = _split_name(data)
        kept = self._kept.get(key)
        if kept is not None and fault_of_name(name) is None:
            own = kept.namespace if data.get("namespace") else namespace
            return replace(kept, name=name, namespace=own)
        draft = read_job(data, checks=self._checks, namespace=namespace)
        if key and _is_nameless(draft):
            if len(self._kept) >= _MOST_KEPT:
                self._kept.clear()
            self._kept[key] = draft
        return draft


def _split_name(data: Any) -> tuple[str, bytes]:
    """The name of a job, and all else that makes two the same; nothing of one that is large or not in order."""
    problems: list[Problem] = []
    rest = plain(data, problems)
    name = rest.pop("name", None) if isinstance(rest, dict) else None
    if problems or not isinstance(name, str):
        return "", b""
    key = msgspec.json.encode(rest)
    return (name, key) if len(key) <= _LARGE else ("", b"")


def _is_nameless(draft: Draft) -> bool:
    """Whether nothing of a draft was read in the light of its name."""
    schedule = draft.spec.schedule
    return not draft.spec.after and (schedule is None or schedule.is_name_independent)
