"""Options of the web UI."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class UiOptions:
    """What the web UI shows, and the limits of its streams."""

    base_path: str = ""  # the prefix of every path, behind a proxy
    read_only: bool = False  # True: no page offers a change
    timezone: str = "UTC"  # of viewers who have not chosen one
    max_streams: int = 500  # open pages that receive signals, at once
    max_streams_each: int = 50  # per account and per address
    heartbeat_s: float = 15.0  # of an idle stream
    write_timeout_s: float = 30.0  # for the browser to receive a signal
