"""Statuses for people: the word, the icon and the value of ``data-s`` that sets the colour."""

from typing import NamedTuple


class StatusWord(NamedTuple):
    """How a status is shown."""

    s: str  # the value of data-s
    icon: str  # the symbol of the sprite
    word: str


_WORDS = {
    "succeeded": StatusWord("succeeded", "succeeded", "Succeeded"),
    "ok": StatusWord("succeeded", "succeeded", "OK"),
    "running": StatusWord("running", "running", "Running"),
    "failed": StatusWord("failed", "failed", "Failed"),
    "failing": StatusWord("failed", "failed", "Failing"),
    "timed_out": StatusWord("timed_out", "failed", "Timed out"),
    "lost": StatusWord("lost", "failed", "Lost"),
    "stale": StatusWord("stale", "failed", "Stale"),
    "retrying": StatusWord("retrying", "retrying", "Retrying"),
    "completed_with_errors": StatusWord("completed_with_errors", "succeeded", "Completed with errors"),
    "late": StatusWord("late", "late", "Late"),
    "missed": StatusWord("missed", "late", "Missed"),
    "skipped": StatusWord("skipped", "skipped", "Skipped"),
    "canceled": StatusWord("canceled", "skipped", "Canceled"),
    "paused": StatusWord("paused", "paused", "Paused"),
    "disabled": StatusWord("disabled", "disabled", "Disabled"),
    "done": StatusWord("done", "done", "Done"),
    "ready": StatusWord("ready", "ready", "Ready"),
    "queued": StatusWord("queued", "queued", "Queued"),
    "waiting": StatusWord("waiting", "waiting", "Waiting"),
    "pending": StatusWord("pending", "waiting", "Pending"),
    "no_runs_yet": StatusWord("ready", "ready", "No runs yet"),
}
_UNKNOWN = "ready"


def find_word(status: str) -> StatusWord:
    """Return how a status is shown, by its name in the API. An unknown one is shown by its name."""
    known = _WORDS.get(status)
    return known or StatusWord(_UNKNOWN, _UNKNOWN, status.replace("_", " ").capitalize())
