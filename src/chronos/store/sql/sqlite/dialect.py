"""SQLite's side of the Dialect protocol."""

import re
from collections.abc import Callable, Sequence

import msgspec

from chronos.core.ids import ID_BYTES
from chronos.store.sql.query import Rows

_TRIGRAM_LENGTH = 3
_PLACEHOLDER = re.compile(r"""('(?:[^']|'')*'|"[^"]*"|--[^\n]*)|\$(\d+)""")  # not inside quotes or comments


class SqliteDialect:
    """SQL for SQLite, which has one writer at a time, so nothing is locked."""

    name = "sqlite"
    serial = True
    plans_from_statistics = False

    def types(self) -> dict[str, str]:
        options = "strict, without rowid"
        return {
            "id": "blob",
            "int": "integer",
            "text": "text",
            "filled": "",
            "table": options,
            "history": options,
            "attempts": options,
            "job": "strict",
        }

    def rows(self, start: int, columns: str) -> str:
        parts = []
        for i, column in enumerate(columns.split()):
            name, kind = column.split(":")
            value = f"value->>{i}"
            parts.append(f"{f'unhex({value})' if kind == 'i' else value} as {name}")
        return f"(select {', '.join(parts)} from jsonb_each(${start}))"

    def one_of(self, column: str, number: int, kind: str = "i") -> str:
        return f"{column} in {self.rows(number, f'value:{kind}')}"

    def within(self, column: str, number: int) -> str:
        return "true"

    def profiles_of(self, profile: str, number: int) -> str:
        return "true"

    def among(self, column: str, query: str) -> str:
        return f"{column} in ({query})"

    def ids_for_each(self, rows: str, query: str) -> str:
        found = f"json_each((select json_group_array(hex(id)) from ({query})))"
        return f"(select unhex(found.value) as id from {rows} as i cross join {found} as found)"

    def json_rows(self, columns: Sequence[str], query: str) -> str:
        return f"(select json_group_array(json_array({', '.join(columns)})) from ({query}) as r)"

    def allow_sort(self) -> str:
        return ""

    def tie_breaker(self, column: str) -> str:
        return f", {column}"

    def lock(self, table: str = "") -> str:
        return ""

    def lock_or_skip(self, table: str = "") -> str:
        return ""

    def name_contains(self, job: str, text: str, arg: Callable[[str], str]) -> str:
        return f"instr(lower({job}.name), lower({arg(text)})) > 0"

    def name_candidates(self, text: str, arg: Callable[[str], str]) -> str | None:
        pieces = sorted({text[i : i + _TRIGRAM_LENGTH] for i in range(len(text) - _TRIGRAM_LENGTH + 1)})
        if not pieces:
            return None
        all_pieces = " AND ".join('"' + piece.replace('"', '""') + '"' for piece in pieces)
        return f"(select rowid as found from job_fts where job_fts match {arg(all_pieces)})"

    def tags_of(self, number: int) -> str:
        return f"""(key, value, namespace, name) in (
            select t.key, t.value, j.namespace, j.name
            from job as j, json_each(iif(json_valid(j.spec), j.spec, '{{}}'), '$.tags') as t
            where {self.is_job_of("j", number)})"""

    def is_job(self, job: str, id_: str) -> str:
        return f"{job}.number = (select place.number from gate as place where place.job = {id_})"

    def is_job_of(self, job: str, number: int) -> str:
        return f"{job}.number in (select place.number from gate as place where {self.one_of('place.job', number)})"

    def gate_of(self, gate: str, job: str) -> str:
        return f"{gate}.number = {job}.number"

    def next_number(self) -> str:
        return "select max(coalesce((select max(number) from job), 0), coalesce((select max(number) from gone), 0)) + 1"

    def force_custom_plan(self) -> str:
        return ""

    def mutex(self) -> str:
        return ""

    def lock_followed_names(self, *, exclusive: bool) -> str:
        return "true"

    def user_session_settings(self) -> tuple[str, str]:
        return "", ""

    def to_driver_sql(self, sql: str) -> str:
        return _PLACEHOLDER.sub(lambda match: match[1] or f"?{match[2]}", sql)


def to_json_rows(rows: Rows) -> str:
    """Return the ``Rows`` argument as JSON text, with ids in hex."""
    places = [i for i, kind in enumerate(rows.types) if kind == "i"]
    if not places:
        return msgspec.json.encode(rows.values).decode()
    ids = [row[0] for row in rows.values]
    if places == [0] and None not in ids and set(map(len, ids)) == {ID_BYTES}:
        written = b"".join(ids).hex(",", ID_BYTES).split(",")
        return msgspec.json.encode([(id_, *row[1:]) for id_, row in zip(written, rows.values, strict=False)]).decode()
    values = []
    for row in rows.values:
        changed = list(row)
        for i in places:
            if changed[i] is not None:
                changed[i] = changed[i].hex()
        values.append(changed)
    return msgspec.json.encode(values).decode()
