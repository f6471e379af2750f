"""Steps for API tokens. Each request with a token looks it up by its hash."""

from typing import Any

import msgspec

from chronos.core.token import ApiToken
from chronos.errors import Conflict, NotFound
from chronos.store.commands.tokens import MAX_TOKENS, CreateToken, RevokeToken
from chronos.store.sql.append_only import AppendOnlyTables
from chronos.store.sql.query import Query, Row, Steps

_COLUMNS = "name, hash, role, namespaces, created_us, expires_us, author"
_INSERT = f"insert into token ({_COLUMNS}) values ($1, $2, $3, $4, $5, $6, $7) on conflict do nothing returning name"
_SELECT_HASH = "select hash from token where name = $1"
_COUNT = "select count(*) from token"
_DELETE = "delete from token where name = $1 returning name"
_BY_HASH = f"select {_COLUMNS} from token where hash = $1"
_ALL = f"select {_COLUMNS} from token order by name"


class TokenHandler:
    """Creates and revokes API tokens. Their audit lines have no namespace."""

    def __init__(self, records: AppendOnlyTables) -> None:
        self._records = records

    def create(self, command: CreateToken) -> Steps[None]:
        """See ``CreateToken``."""
        token = command.token
        [(count,)] = yield Query(_COUNT)
        if count >= MAX_TOKENS:
            raise Conflict(f"there are already {MAX_TOKENS} tokens; delete unused ones")
        namespaces = (
            None if token.namespaces is None else msgspec.json.encode(token.namespaces, order="sorted").decode()
        )
        args = (
            token.name,
            token.token_hash,
            token.role,
            namespaces,
            command.now_us,
            token.expires_us,
            command.actor.name,
        )
        if not (yield Query(_INSERT, args)):
            if (yield Query(_SELECT_HASH, (token.name,))) == [(token.token_hash,)]:
                return  # sent again
            raise Conflict(f'a token named "{token.name}" exists already; choose another name')
        yield from self._records.audit(
            command.actor, "create token", "", token.name, command.now_us, _describe_grant(token)
        )

    def revoke(self, command: RevokeToken) -> Steps[None]:
        """See ``RevokeToken``."""
        if not (yield Query(_DELETE, (command.name,))):
            raise NotFound(f'token "{command.name[:200]}" does not exist')
        yield from self._records.audit(command.actor, "revoke token", "", command.name, command.now_us)


def find_token(token_hash: str) -> Steps[ApiToken | None]:
    rows = yield Query(_BY_HASH, (token_hash,), standalone=True)
    return _to_api_token(rows[0]) if rows else None


def list_tokens() -> Steps[list[ApiToken]]:
    return [_to_api_token(row) for row in (yield Query(_ALL, standalone=True))]


def _to_api_token(row: Row) -> ApiToken:
    name, token_hash, role, text, created_us, expires_us, author = row
    namespaces: Any = None if text is None else msgspec.json.decode(text)
    return ApiToken(
        name=name,
        token_hash=token_hash,
        role=role,
        namespaces=namespaces,
        created_us=created_us,
        expires_us=expires_us,
        author=author,
    )


def _describe_grant(token: ApiToken) -> str:
    """Describe the permissions of a new token, for the audit log."""
    match token.namespaces:
        case None:
            return f"{token.role} everywhere"
        case dict() as roles:
            return ", ".join(f"{role} in {namespace}" for namespace, role in sorted(roles.items()))
        case namespaces:
            return f"{token.role} in {', '.join(sorted(namespaces))}"
