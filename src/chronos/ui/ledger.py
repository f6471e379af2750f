"""The ledger: the steps of a "why" explanation as rows with a time, a glyph, a verdict and a sentence."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from chronos.core.calendar import SECOND_US
from chronos.core.credentials import hide_userinfo
from chronos.core.execution import Attempt
from chronos.core.schedule.durations import format_duration
from chronos.service.why_steps import WhyRef, WhyStep, WhyVerdict
from chronos.ui.time_text import Times

LinkMaker = Callable[[WhyRef], str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerRow:
    """One row. A ``gap`` has only a sentence; a ``day`` is a heading."""

    kind: str  # step, next, gap or day
    sentence: str | Markup
    at_us: int | None = None
    s: str = "fact"
    icon: str = "fact"
    verdict: str = ""


_VERDICTS = {
    WhyVerdict.DUE: ("fact", "clock", "Due"),
    WhyVerdict.ADMITTED: ("succeeded", "succeeded", "Admitted"),
    WhyVerdict.STARTED: ("running", "running", "Started"),
    WhyVerdict.ATTEMPT: ("fact", "fact", "Attempt"),
    WhyVerdict.WAITS: ("waiting", "waiting", "Waiting"),
    WhyVerdict.ENDED: ("succeeded", "succeeded", "Succeeded"),
    WhyVerdict.FAILED: ("failed", "failed", "Failed"),
    WhyVerdict.CANCELED: ("canceled", "skipped", "Canceled"),
    WhyVerdict.SKIPPED: ("skipped", "skipped", "Skipped"),
    WhyVerdict.MISSED: ("missed", "late", "Missed"),
    WhyVerdict.RECOVERED: ("succeeded", "succeeded", "Recovered"),
    WhyVerdict.PAUSED: ("paused", "paused", "Paused"),
    WhyVerdict.OFF: ("disabled", "disabled", "Not active"),
    WhyVerdict.NO_INSTANT: ("skipped", "skipped", "Not a scheduled time"),
    WhyVerdict.UNKNOWN: ("warning", "warn", "Not known"),
    WhyVerdict.COMING: ("fact", "next", "Next run"),
    WhyVerdict.LIMITS: ("succeeded", "succeeded", "Limits"),
    WhyVerdict.CLAIMED: ("fact", "node", "Claimed"),
    WhyVerdict.BACKOFF: ("fact", "waiting", "Paused before a retry"),
    WhyVerdict.FOLLOWERS: ("fact", "branch", "Downstream jobs"),
    WhyVerdict.DEAD_LETTER: ("failed", "letters", "Added to dead letters"),
}
#: The order of steps that have the same time.
_RANK = {
    verdict: rank
    for rank, verdict in enumerate(
        (WhyVerdict.DUE, WhyVerdict.ADMITTED, WhyVerdict.LIMITS, WhyVerdict.CLAIMED, WhyVerdict.STARTED)
    )
}
_FINAL = (WhyVerdict.ENDED, WhyVerdict.FAILED)  # their sentences may begin with the status alone: "Failed."
_MAX_STATUS = len("Completed with errors")
_ATTEMPT_STATUS = (
    ("succeeded", "succeeded", "succeeded"),
    ("is running", "running", "running"),
    ("failed", "retrying", "retrying"),
    ("timed out", "retrying", "retrying"),
    ("was lost", "lost", "failed"),
    ("was canceled", "canceled", "skipped"),
)


def make_ledger(
    steps: Sequence[WhyStep], times: Times, link: LinkMaker, attempts: Sequence[Attempt] = ()
) -> list[LedgerRow]:
    """Return the rows of an explanation, with a heading per day if it spans several.

    ``link`` returns the address of something that a sentence names.
    """
    rows: list[LedgerRow] = []
    has_pauses = any(step.verdict is WhyVerdict.BACKOFF for step in steps)
    waits = {} if has_pauses else _find_waits(attempts)
    steps = sorted(steps, key=lambda step: (step.at_us, _RANK.get(step.verdict, len(_RANK))))
    days = {times.day_of(step.at_us) for step in steps}
    day = None
    for step in steps:
        if len(days) > 1 and times.day_of(step.at_us) != day:
            day = times.day_of(step.at_us)
            rows.append(LedgerRow(kind="day", sentence=times.date(step.at_us)))
        if step.verdict is WhyVerdict.ATTEMPT and step.at_us in waits:
            rows.append(LedgerRow(kind="gap", sentence=waits[step.at_us]))
        rows.append(_make_row(step, link))
    return rows


def _make_row(step: WhyStep, link: LinkMaker) -> LedgerRow:
    s, icon, verdict = _VERDICTS.get(step.verdict, ("fact", "fact", step.verdict.value.replace("_", " ").capitalize()))
    sentence = hide_userinfo(step.sentence)
    if step.verdict is WhyVerdict.ATTEMPT:
        s, icon, verdict, sentence = _split_attempt(sentence)
    elif step.verdict in _FINAL and len(status := sentence.partition(".")[0]) <= _MAX_STATUS:
        verdict, sentence = status, sentence.partition(".")[2].strip()
    return LedgerRow(
        kind="next" if step.verdict is WhyVerdict.COMING else "step",
        at_us=step.at_us,
        s=s,
        icon=icon,
        verdict=verdict,
        sentence=_link_evidence(sentence, step.refs, link),
    )


def _link_evidence(sentence: str, refs: Sequence[WhyRef], link: LinkMaker) -> Markup:
    """Return a sentence with links where it names runs, nodes, versions and jobs."""
    html = escape(sentence)
    for ref in refs:
        address, text = link(ref), escape(ref.text)
        if address is not None and text in html:
            html = Markup(html.replace(text, Markup('<a href="{}">{}</a>').format(address, ref.text), 1))
    return html


def _split_attempt(sentence: str) -> tuple[str, str, str, str]:
    """Split ``load: attempt 1 failed after 2m on node-b: HTTP 503`` into its verdict and the rest."""
    for phrase, s, icon in _ATTEMPT_STATUS:
        before, found, after = sentence.partition(f" {phrase}")
        if found and ": attempt " in before:
            rest = after.strip(" ")
            return s, icon, f"{before} {phrase}", f"{rest[:1].upper()}{rest[1:]}"
    return "fact", "fact", "Attempt", sentence


def _find_waits(attempts: Sequence[Attempt]) -> dict[int, str]:
    """Return, by the start of an attempt, how long its task waited since the attempt before."""
    ended_us: dict[str, int] = {}
    waits: dict[int, str] = {}
    for attempt in attempts:
        before_us = ended_us.get(attempt.task)
        if before_us is not None and attempt.started_us - before_us > SECOND_US:
            waits[attempt.started_us] = f"Waited {format_duration(attempt.started_us - before_us)}"
        if attempt.finished_us is not None:
            ended_us[attempt.task] = attempt.finished_us
    return waits
