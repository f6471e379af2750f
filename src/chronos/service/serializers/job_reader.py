"""The reader of jobs with its memory: jobs that come by the thousand often differ in their names alone."""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from chronos.core.job import DEFAULT_NAMESPACE
from chronos.service.serializers.identifiers import find_name_fault
from chronos.service.serializers.job import Check, Draft, read_job
from chronos.service.serializers.json_values import to_plain_json
from chronos.service.serializers.problems import Problem

_MAX_CACHED_BYTES = 2 * 1024  # bytes of a job that is not worth keeping
_MAX_CACHED = 4_096


class JobReader:
    """Reads jobs with ``read_job``; of one that says what another said, it gives that draft under the new name."""

    def __init__(self, checks: Mapping[str, Check]) -> None:
        self._checks = checks
        self._drafts: dict[bytes, Draft] = {}

    def read(self, data: Any, *, namespace: str = DEFAULT_NAMESPACE) -> Draft:
        """The job that a caller wrote. Raises ``InvalidJob``, see ``read_job``."""
        name, key = _split_name(data)
        known = self._drafts.get(key)
        if known is not None and find_name_fault(name) is None:
            own_namespace = known.namespace if data.get("namespace") else namespace
            return replace(known, name=name, namespace=own_namespace)
        draft = read_job(data, checks=self._checks, namespace=namespace)
        if key and _is_name_independent(draft):
            if len(self._drafts) >= _MAX_CACHED:
                self._drafts.clear()
            self._drafts[key] = draft
        return draft


def _split_name(data: Any) -> tuple[str, bytes]:
    """The name of a job, and all else that makes two the same; nothing of one that is large or not in order."""
    problems: list[Problem] = []
    rest = to_plain_json(data, problems)
    name = rest.pop("name", None) if isinstance(rest, dict) else None
    if problems or not isinstance(name, str):
        return "", b""
    key = msgspec.json.encode(rest)
    return (name, key) if len(key) <= _MAX_CACHED_BYTES else ("", b"")


def _is_name_independent(draft: Draft) -> bool:
    """Whether nothing of a draft was read in the light of its name."""
    schedule = draft.spec.schedule
    return not draft.spec.after and (schedule is None or schedule.is_name_independent)
