"""DeadLetterGroups: dead letters with the same error, counted, with their trend over a week."""

import re
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from enum import StrEnum

from chronos.clock import Clock
from chronos.core.calendar import DAY_S, SECOND_US
from chronos.core.execution import DeadLetter
from chronos.store.contract import JobName, Store

MAX_LETTERS = 10_000  # that are read for the groups
TREND_DAYS = 7
KEY_CHARACTERS = 120
_PAGE = 500
_DAY_US = DAY_S * SECOND_US
_PLACEHOLDERS = (
    (re.compile(r"""\"[^"\n]{1,200}\"|(?<!\w)'[^'\n]{1,200}'(?!\w)|`[^`\n]{1,200}`"""), "<text>"),
    (re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", re.IGNORECASE), "<id>"),
    (re.compile(r"\b(?=[0-9a-f]*[0-9])(?=[0-9a-f]*[a-f])[0-9a-f]{8,64}\b", re.IGNORECASE), "<id>"),
    (re.compile(r"(?<!HTTP )(?<![\d.,:])\d+(?:[.,:]\d+)*"), "<n>"),
)
_TASK = re.compile(r'Task "([^"]*)" failed(?: after \d+ attempts?)?: (.*)')


class GroupBy(StrEnum):
    """What the letters of a group have in common."""

    ERROR = "error"
    JOB = "job"


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterGroup:
    """Dead letters that belong together."""

    key: str  # equal for equal groups, as long as the error stays the same
    error: str  # with placeholders; of the latest letter if grouped by job
    example: str  # the whole error of the latest letter
    job_names: tuple[str, ...]  # up to 10
    count: int
    latest_us: int
    latest: bytes  # the execution of the latest letter
    trend: tuple[int, ...]  # per day, oldest first; the last is today, in UTC


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterGroups:
    """Groups, the largest first. If they are not ``complete``, older letters were not read."""

    groups: tuple[LetterGroup, ...]
    letters: int
    complete: bool
    latest_us: int | None


class DeadLetterGroups:
    """Reads and groups dead letters."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock

    async def groups(
        self,
        *,
        namespace: str | None = None,
        job: bytes | None = None,
        text: str | None = None,
        by: GroupBy = GroupBy.ERROR,
        sees: Callable[[str], bool] | None = None,
    ) -> LetterGroups:
        """Return the groups of dead letters. ``text``: only letters whose error or job name contains it."""
        now_us = self._clock.now_us()
        found: dict[str, list[tuple[DeadLetter, JobName | None]]] = {}
        letters, cut = 0, False
        async for letter, name in self._read(namespace, job, text, sees):
            if letters == MAX_LETTERS:
                cut = True
                break
            letters += 1
            key = to_error_key(letter.reason.message) if by is GroupBy.ERROR else letter.job.hex()
            found.setdefault(key, []).append((letter, name))
        groups = [_build_group(key, entries, by, now_us) for key, entries in found.items()]
        groups.sort(key=lambda group: (-group.count, -group.latest_us))
        return LetterGroups(
            groups=tuple(groups),
            letters=letters,
            complete=not cut,
            latest_us=max((group.latest_us for group in groups), default=None),
        )

    async def letters(
        self,
        *,
        namespace: str | None = None,
        job: bytes | None = None,
        text: str | None = None,
        group: str | None = None,
        limit: int = 100,
        cursor: bytes | None = None,
        sees: Callable[[str], bool] | None = None,
    ) -> tuple[list[tuple[DeadLetter, JobName | None]], bytes | None]:
        """Return dead letters, newest first, and the cursor of the next page. ``group``: the key of an error."""
        found: list[tuple[DeadLetter, JobName | None]] = []
        async for letter, name in self._read(namespace, job, text, sees, cursor):
            if group is not None and group not in (to_error_key(letter.reason.message), letter.job.hex()):
                continue
            if len(found) == limit:
                return found, found[-1][0].execution
            found.append((letter, name))
        return found, None

    async def _read(
        self,
        namespace: str | None,
        job: bytes | None,
        text: str | None,
        sees: Callable[[str], bool] | None,
        cursor: bytes | None = None,
    ) -> AsyncIterator[tuple[DeadLetter, JobName | None]]:
        wanted = None if text is None else text.casefold()
        names: dict[bytes, JobName] = {}
        while True:
            page = await self._store.list_dead_letters(namespace=namespace, limit=_PAGE, cursor=cursor)
            names |= await self._store.names_of(sorted({letter.job for letter in page.items} - names.keys()))
            for letter in page.items:
                name = names.get(letter.job)
                if (job is not None and letter.job != job) or (sees is not None and not sees(letter.namespace)):
                    continue
                shown = f"{letter.reason.message}\n{'' if name is None else name.name}"
                if wanted is None or wanted in shown.casefold():
                    yield letter, name
            cursor = page.cursor
            if cursor is None:
                return


def to_error_key(message: str) -> str:
    """Return an error without what differs from run to run: numbers, ids and quoted text become placeholders.

    The task that failed and the status of an HTTP response stay.
    """
    line = " ".join(message.split())
    if match := _TASK.fullmatch(line):
        return f"{match[1]}: {to_error_key(match[2])}"[:KEY_CHARACTERS]
    for pattern, placeholder in _PLACEHOLDERS:
        line = pattern.sub(placeholder, line)
    return line[:KEY_CHARACTERS]


def _build_group(key: str, entries: list[tuple[DeadLetter, JobName | None]], by: GroupBy, now_us: int) -> LetterGroup:
    latest = max((letter for letter, _ in entries), key=lambda letter: letter.failed_us)
    today = now_us // _DAY_US
    trend = [0] * TREND_DAYS
    for letter, _ in entries:
        age = today - letter.failed_us // _DAY_US
        if 0 <= age < TREND_DAYS:
            trend[TREND_DAYS - 1 - age] += 1
    names = sorted({name.name for _, name in entries if name is not None})
    return LetterGroup(
        key=key,
        error=key if by is GroupBy.ERROR else to_error_key(latest.reason.message),
        example=latest.reason.message,
        job_names=tuple(names[:10]),
        count=len(entries),
        latest_us=latest.failed_us,
        latest=latest.execution,
        trend=tuple(trend),
    )
