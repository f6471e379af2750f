"""Checks the arguments of an app, and turns them into the options of its node."""

import os
import socket
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from chronos.core.schedule.timezones import get_zone
from chronos.engine.options import EngineOptions
from chronos.errors import Invalid
from chronos.sdk.job_options import Duration, to_seconds


def build_engine_options(
    *,
    node_name: str | None,
    slots: int,
    queues: Sequence[str] | None,
    labels: Mapping[str, str] | None,
    grace: Duration,
    timeout_grace: Duration,
    heartbeat_interval: Duration,
    heartbeat_timeout: Duration,
    reaper_interval: Duration,
) -> EngineOptions:
    """The options of an app's node. Raises ``Invalid``."""
    return EngineOptions(
        node_name=node_name or f"{socket.gethostname()}-{os.getpid()}",
        slots=_check_integer(slots, "slots"),
        queues=None if queues is None else frozenset(check_texts(queues, "queues")),
        labels=_check_labels(labels),
        grace_s=to_seconds(grace, "grace"),
        timeout_grace_s=to_seconds(timeout_grace, "timeout_grace"),
        heartbeat_s=_to_interval_s(heartbeat_interval, "heartbeat_interval"),
        heartbeat_timeout_s=_to_interval_s(heartbeat_timeout, "heartbeat_timeout"),
        reaper_s=_to_interval_s(reaper_interval, "reaper_interval"),
    )


def check_app_options(*, timezone: str | None, **texts: str | None) -> None:
    """Check the texts and the time zone of an app. Raises ``Invalid``."""
    for argument, value in (*texts.items(), ("timezone", timezone)):
        if value is not None and (not isinstance(value, str) or not value):
            raise Invalid(f"{argument} is {value!r}; use text, or leave it out")
    if timezone is not None:
        try:
            get_zone(timezone)
        except LookupError as error:
            raise Invalid(f"timezone: {error.args[0]}") from None


def check_texts(values: Sequence[str], argument: str) -> tuple[str, ...]:
    """Return a list of texts. Raises ``Invalid``."""
    texts = None if isinstance(values, str) or not isinstance(values, Iterable) else tuple(values)
    if texts is None or not all(isinstance(text, str) for text in texts):
        raise Invalid(f"{argument} is {values!r}; use a list of texts")
    return texts


def to_grace_s(grace: Duration | None) -> float | None:
    """A grace period in seconds; None: that of the app."""
    return None if grace is None else to_seconds(grace, "grace")


def _to_interval_s(value: Duration, argument: str) -> float:
    seconds = to_seconds(value, argument)
    if seconds <= 0:
        raise Invalid(f"{argument} is {value!r}; use a duration above zero")
    return seconds


def _check_integer(value: int, argument: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise Invalid(f"{argument} is {value!r}; use a whole number")
    return value


def _check_labels(labels: Any) -> dict[str, str]:
    labels = {} if labels is None else labels
    if not isinstance(labels, Mapping) or not all(isinstance(text, str) for pair in labels.items() for text in pair):
        raise Invalid(f'labels is {labels!r}; use an object of texts, like {{"region": "eu"}}')
    return dict(labels)
