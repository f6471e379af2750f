"""JobReader: reads jobs from JSON, with a cache. Jobs that arrive by the thousand often differ only in their names."""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from chronos.core.job import DEFAULT_NAMESPACE
from chronos.service.serializers.identifiers import find_name_fault
from chronos.service.serializers.job import Draft, read_job
from chronos.service.serializers.json_values import to_plain_json
from chronos.service.serializers.problems import Problem
from chronos.service.serializers.target import Check

_MAX_CACHED_BYTES = 2 * 1024  # larger jobs are rarely repeated
_MAX_CACHED = 4_096


class JobReader:
    """Reads jobs with ``read_job``. Returns the cached draft under the new name if only the name differs."""

    def __init__(self, checks: Mapping[str, Check]) -> None:
        self._checks = checks
        self._drafts: dict[bytes, Draft] = {}

    def read(self, data: Any, *, namespace: str = DEFAULT_NAMESPACE) -> Draft:
        """Read a job. Raises ``InvalidJob``, see ``read_job``."""
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
    """Split a job into its name and a cache key of everything else. The key is empty for a large or faulty job."""
    problems: list[Problem] = []
    rest = to_plain_json(data, problems)
    name = rest.pop("name", None) if isinstance(rest, dict) else None
    if problems or not isinstance(name, str):
        return "", b""
    key = msgspec.json.encode(rest)
    return (name, key) if len(key) <= _MAX_CACHED_BYTES else ("", b"")


def _is_name_independent(draft: Draft) -> bool:
    """Return whether no part of the draft depends on the job's name."""
    schedule = draft.spec.schedule
    return not draft.spec.after and (schedule is None or schedule.is_name_independent)
