"""PostgreSQL's side of the Dialect protocol."""

import re
from collections.abc import Callable, Sequence
from typing import Any

from chronos.store.sql.postgres.advisory_locks import DEFAULT_SCHEMA, AdvisoryLock
from chronos.store.sql.postgres.session_settings import SessionKind, build_settings
from chronos.store.sql.query import Rows

_ARRAY_TYPES = {"i": "uuid[]", "n": "bigint[]", "t": "text[]"}


class PostgresDialect:
    """SQL for PostgreSQL, which has concurrent writers: gates are locked first, in key order."""

    name = "postgres"
    serial = False
    plans_from_statistics = True

    def __init__(self, schema: str = DEFAULT_SCHEMA) -> None:
        self._schema = schema

    def types(self) -> dict[str, str]:
        return {
            "id": "uuid",
            "int": "bigint",
            "text": 'text collate "C"',
            "filled": "with (fillfactor = 60)",
            "table": "",
            "history": "partition by range (id)",
            "attempts": "partition by range (execution)",
            "job": "",
        }

    def rows(self, start: int, columns: str) -> str:
        names, arrays = [], []
        for i, column in enumerate(columns.split()):
            name, kind = column.split(":")
            names.append(name)
            arrays.append(f"${start + i}::{_ARRAY_TYPES[kind]}")
        return f"(select * from unnest({', '.join(arrays)}) as t({', '.join(names)}))"

    def one_of(self, column: str, number: int, kind: str = "i") -> str:
        return f"{column} = any(${number}::{_ARRAY_TYPES[kind]})"

    def within(self, column: str, number: int) -> str:
        return f"{column} = any(${number})"

    def profiles_of(self, profile: str, number: int) -> str:
        return f"{profile}.number = any(array(select h.profile from gate as h where h.job = any(${number})))"

    def among(self, column: str, query: str) -> str:
        return f"{column} = any(array({query}))"

    def ids_for_each(self, rows: str, query: str) -> str:
        return f"(select found.id from {rows} as i cross join lateral ({query}) as found)"

    def json_rows(self, columns: Sequence[str], query: str) -> str:
        return f"(select json_agg(json_build_array({', '.join(columns)}))::text from ({query}) as r)"

    def allow_sort(self) -> str:
        return _set_locally({"enable_sort": "on", "enable_incremental_sort": "on"})

    def tie_breaker(self, column: str) -> str:
        return ""

    def lock(self, table: str = "") -> str:
        return f"for update of {table}" if table else "for update"

    def lock_or_skip(self, table: str = "") -> str:
        return f"{self.lock(table)} skip locked"

    def name_contains(self, job: str, text: str, arg: Callable[[str], str]) -> str:
        pattern = re.sub(r"([\\%_])", r"\\\1", text)
        return f"{job}.name ilike {arg(f'%{pattern}%')}"

    def name_candidates(self, text: str, arg: Callable[[str], str]) -> str | None:
        return None

    def tags_of(self, number: int) -> str:
        return self.one_of("job", number)

    def is_job(self, job: str, id_: str) -> str:
        return f"{job}.id = {id_}"

    def is_job_of(self, job: str, number: int) -> str:
        return self.one_of(f"{job}.id", number)

    def gate_of(self, gate: str, job: str) -> str:
        return f"{gate}.job = {job}.id"

    def next_number(self) -> str:
        return ""

    def force_custom_plan(self) -> str:
        for_index = dict.fromkeys(("enable_bitmapscan", "enable_sort"), "on")  # the trigram index needs both
        return _set_locally({"plan_cache_mode": "force_custom_plan", **for_index})

    def mutex(self) -> str:
        return f"select pg_advisory_xact_lock({AdvisoryLock.NUMBERS.key(self._schema)})"

    def lock_followed_names(self, *, exclusive: bool) -> str:
        key = AdvisoryLock.FOLLOWED_NAMES.key(self._schema)
        return f"(select pg_advisory_xact_lock{'' if exclusive else '_shared'}({key}))::text is not null"

    def user_session_settings(self) -> tuple[str, str]:
        settings = {
            name: value
            for name, value in build_settings(SessionKind.WRITER, self._schema).items()
            if name in ("search_path", "plan_cache_mode") or name.startswith("enable_")
        }
        enter = ", ".join(f"set_config('{name}', null, true)" for name in settings)  # null: the user's default
        leave = ", ".join(f"set_config('{name}', '{value}', true)" for name, value in settings.items())
        return f"select {enter}", f"select {leave}"

    def to_driver_sql(self, sql: str) -> str:
        return sql


def _set_locally(values: dict[str, str]) -> str:
    """Return a statement that changes settings until the transaction ends."""
    settings = ", ".join(f"set_config('{name}', '{value}', true)" for name, value in values.items())
    return f"select {settings}"


def to_column_arrays(rows: Rows) -> list[list[Any]]:
    """Return the ``Rows`` argument as one list per column."""
    if not rows.values:
        return [[] for _ in rows.types]
    return [list(column) for column in zip(*rows.values, strict=True)]
