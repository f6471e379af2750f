"""Settings of each session of PostgreSQL, by what the connection is for.

They are set by a statement after connecting: a pooler refuses them as parameters of the connection.

PostgreSQL plans each statement once per connection and keeps the plan. It plans for the tables as they are then, and
``active`` is often empty at that moment: a plan that reads the whole table would stay in use when the table has a
hundred thousand rows. So all connections turn off sequential scans, and writing connections every join but the hash
join. Statements name the keys they need (``Dialect.within``), and are fast whatever the statistics say. Before version
17, PostgreSQL may still read a table of a few rows completely, so plans are discarded every few seconds.
"""

from enum import StrEnum

_COMMON_SETTINGS = {
    "plan_cache_mode": "force_generic_plan",
    "jit": "off",
    "max_parallel_workers_per_gather": "0",
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "client_min_messages": "warning",
    "default_transaction_isolation": "read committed",
    # A frozen or disconnected node must not hold its gates for ever.
    "idle_in_transaction_session_timeout": "15s",
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
}


class SessionKind(StrEnum):
    """What a connection is for. The value is part of its ``application_name``."""

    READER = "reader"
    LISTENER = "listener"
    WRITER = "writer"


# Lists are read in index order and end with the page. A sort would read all rows first.
_SETTINGS_BY_KIND = {
    SessionKind.READER: {"enable_sort": "off", "enable_incremental_sort": "off"},
    SessionKind.LISTENER: {},
    SessionKind.WRITER: {"enable_nestloop": "off", "enable_mergejoin": "off"},
}


def build_settings(kind: SessionKind, schema: str, application_name: str = "chronos") -> dict[str, str]:
    """Return the settings of a session, by name."""
    return {
        "search_path": f'"{schema}"',
        "application_name": f"{application_name} {kind.value}",
        **_COMMON_SETTINGS,
        **_SETTINGS_BY_KIND[kind],
    }
