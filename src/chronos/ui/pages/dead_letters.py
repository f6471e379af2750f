"""Dead letters: failed runs that someone has to replay or discard, grouped by their error."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from chronos.core.credentials import hide_userinfo
from chronos.core.execution import DeadLetter
from chronos.errors import NotFound
from chronos.service.serializers import id_text
from chronos.store.contract import JobName
from chronos.ui.charts.trend import draw_trend
from chronos.ui.visit import View, Visit

MAX_LETTERS = 1_000  # that one page reads
_MAX_SHOWN = 50  # of one group
_KEY_CHARS = 120
_QUOTED = re.compile(r"\"[^\"]*\"|'[^']*'|“[^”]*”")
_IDS = re.compile(r"\b[0-9a-f]{8}(?:-?[0-9a-f]{4}){3}-?[0-9a-f]{12}\b|\b[0-9a-f]{12,}\b", re.IGNORECASE)
_TASK = re.compile(r'Task "([^"]*)" failed(?: after \d+ attempts?)?: (.*)', re.DOTALL)
_NUMBERS = re.compile(r"\d+(?:\.\d+)?")


@dataclass(slots=True, kw_only=True)
class LetterGroup:
    """Dead letters with the same error."""

    key: str
    task: str  # empty if the error names none
    error: str
    jobs: list[str] = field(default_factory=list)
    letters: list[DeadLetter] = field(default_factory=list)


async def show(visit: Visit) -> View:
    """Show the dead letters of a namespace by error."""
    if not visit.account.sees(visit.namespace):
        raise NotFound(f'namespace "{visit.namespace}" not found')
    query = (visit.text("q") or "").strip()
    page = await visit.ui.service.runs.dead_letters(namespace=visit.namespace, limit=MAX_LETTERS)
    names = await visit.ui.store.names_of(sorted({letter.job for letter in page.items}))
    groups = _group(page.items, names, query)
    values: dict[str, Any] = {
        "groups": groups,
        "total": sum(len(group.letters) for group in groups),
        "job_count": len({name for group in groups for name in group.jobs}),
        "is_capped": page.cursor is not None,
        "oldest_us": min((letter.failed_us for group in groups for letter in group.letters), default=None),
        "names": names,
        "q": query,
        "max_shown": _MAX_SHOWN,
        "open_key": visit.text("open") or (groups[0].key if groups else ""),
        "id_text": id_text,
        "trend": lambda group: draw_trend([letter.failed_us for letter in group.letters], visit.times),
    }
    return View(template="dead_letters.html", values=values, parts=("groups",))


def find_group_key(error: str) -> str:
    """Return an error without its numbers, ids and quoted text, at most 120 characters."""
    plain = _NUMBERS.sub("#", _IDS.sub("#", _QUOTED.sub("“…”", error)))
    return " ".join(plain.split())[:_KEY_CHARS]


def _split_task(error: str) -> tuple[str, str]:
    """Split ``Task "load" failed after 3 attempts: HTTP 503`` into the task and the error of its last attempt."""
    match = _TASK.fullmatch(error)
    return (match[1], match[2]) if match else ("", error)


def _group(letters: Sequence[DeadLetter], names: dict[bytes, JobName], query: str) -> list[LetterGroup]:
    """Group letters by error, the group with the newest letter first."""
    groups: dict[str, LetterGroup] = {}
    for letter in letters:
        error = hide_userinfo(letter.reason.message)
        name = names[letter.job].name if letter.job in names else "deleted job"
        if query and query.lower() not in f"{error} {name}".lower():
            continue
        task, rest = _split_task(error)
        key = f"{task}: {find_group_key(rest)}"
        group = groups.setdefault(key, LetterGroup(key=key, task=task, error=rest))
        group.letters.append(letter)
        if name not in group.jobs:
            group.jobs.append(name)
    return list(groups.values())
