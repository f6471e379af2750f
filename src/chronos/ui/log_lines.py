"""The output of a run as numbered lines: windows, search, colours of terminals, and bounds.

Control characters other than colours are dropped. The six colours map to statuses; all other formats are plain.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from chronos.store.commands import PROGRESS, OutputRow

WINDOW = 500  # lines on one page
MAX_LINE = 4 << 10  # characters of a line before "Show all"
_ANSI = re.compile(r"\x1b\[([0-9;]*)m")
_OTHER_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_ERROR = re.compile(r"\b(error|exception|fatal|traceback|critical)\b", re.IGNORECASE)
_WARNING = re.compile(r"\bwarn(ing)?\b", re.IGNORECASE)
_COLOURS = {
    31: "failed", 91: "failed", 32: "succeeded", 92: "succeeded", 33: "retrying", 93: "retrying",
    34: "running", 94: "running", 35: "late", 95: "late", 36: "running", 96: "running",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputLine:
    """One line of output, or a sentence between two attempts (without a number)."""

    number: int | None
    html: Markup
    s: str = ""
    is_cut: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputWindow:
    """Some consecutive lines of the output of a task."""

    lines: Sequence[OutputLine]
    total: int
    size: int  # bytes
    first: int
    before: int  # lines above the window
    after: int  # lines below it
    matches: int | None = None  # lines that contain the searched text


def read_window(
    rows: Sequence[OutputRow],
    *,
    task: str,
    attempt: int | None = None,
    first: int | None = None,
    search: str = "",
    errors_only: bool = False,
    from_end: bool = True,
    long_line: int | None = None,
) -> OutputWindow:
    """Return a window of a task's output: from line ``first``, else its end or its beginning.

    With ``search`` or ``errors_only`` the window has only the lines that match. ``long_line`` is shown whole.
    """
    texts = list(_list_lines(rows, task, attempt))
    total = sum(1 for number, _ in texts if number is not None)
    shown = [(number, text) for number, text in texts if _is_wanted(number, text, search, errors_only)]
    start = _find_start(shown, first, from_end=from_end)
    window = shown[start : start + WINDOW]
    return OutputWindow(
        lines=[
            _make_line(number, text, search, whole=number is not None and number == long_line)
            for number, text in window
        ],
        total=total,
        size=sum(len(text.encode(errors="replace")) + 1 for number, text in texts if number is not None),
        first=next((number for number, _ in window if number is not None), 1),
        before=start,
        after=max(0, len(shown) - start - WINDOW),
        matches=len(shown) if search else None,
    )


def clean_text(text: str) -> str:
    """Return text without terminal codes and control characters."""
    return _CONTROLS.sub("", _OTHER_ESCAPES.sub("", _ANSI.sub("", text)))


def _list_lines(rows: Sequence[OutputRow], task: str, attempt: int | None) -> Iterator[tuple[int | None, str]]:
    """Yield the lines of a task with their numbers, and a sentence before each attempt if there are several."""
    parts: dict[int, list[str]] = {}
    for row in rows:
        if row.part != PROGRESS and row.task == task and attempt in (None, row.number):
            parts.setdefault(row.number, []).append(row.text)
    number = 0
    for attempt_number, texts in parts.items():
        if len(parts) > 1:
            yield None, f"Attempt {attempt_number}"
        for text in "".join(texts).removesuffix("\n").split("\n"):
            number += 1
            yield number, text


def _is_wanted(number: int | None, text: str, search: str, errors_only: bool) -> bool:
    if number is None:
        return not search
    if search and search.lower() not in clean_text(text).lower():
        return False
    return not errors_only or _ERROR.search(text) is not None


def _find_start(shown: Sequence[tuple[int | None, str]], first: int | None, *, from_end: bool) -> int:
    if first is not None:
        return next((i for i, (number, _) in enumerate(shown) if number is not None and number >= first), 0)
    return max(0, len(shown) - WINDOW) if from_end else 0


def _make_line(number: int | None, text: str, search: str, *, whole: bool) -> OutputLine:
    is_cut = len(text) > MAX_LINE and not whole
    html = _colour(text[:MAX_LINE] if is_cut else text, search)
    plain = clean_text(text[:MAX_LINE])
    s = "failed" if _ERROR.search(plain) else "warning" if _WARNING.search(plain) else ""
    return OutputLine(number=number, html=html, s=s if number is not None else "", is_cut=is_cut)


def _colour(text: str, search: str) -> Markup:
    """Return a line as HTML: colours as statuses, found text marked, everything else escaped."""
    out: list[Markup] = []
    status = ""
    at = 0
    for match in _ANSI.finditer(text):
        out.append(_wrap(text[at : match.start()], status, search))
        at = match.end()
        for code in (int(one) for one in match[1].split(";") if one):
            status = _COLOURS.get(code, "" if code in (0, 39) else status)
        if not match[1]:
            status = ""
    out.append(_wrap(text[at:], status, search))
    return Markup("").join(out)


def _wrap(text: str, status: str, search: str) -> Markup:
    plain = clean_text(text)
    if not plain:
        return Markup("")
    html = _mark(plain, search)
    return Markup('<span class="a" data-s="{}">{}</span>').format(status, html) if status else html


def _mark(text: str, search: str) -> Markup:
    if not search:
        return escape(text)
    pieces = re.split(f"({re.escape(search)})", text, flags=re.IGNORECASE)
    return Markup("").join(
        Markup("<mark>{}</mark>").format(piece) if index % 2 else escape(piece) for index, piece in enumerate(pieces)
    )
