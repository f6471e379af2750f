"""The REST API: HTTP on top of the service layer.

``handlers`` has the routes, one module per noun; ``openapi`` documents them; ``auth`` decides who may call them.
``app`` serves, ``middleware`` wraps every request, ``request`` and ``responses`` read and write, and ``problems`` maps
every error to an HTTP problem. The meaning of an action belongs in ``chronos.service``.
"""

from chronos.api.app import Api, make_api
from chronos.api.auth.authentication import Access, read_users
from chronos.api.auth.denials import Denials
from chronos.api.auth.passwords import hash_password
from chronos.api.auth.permissions import Permission, Principal, read_grant
from chronos.api.auth.session_store import SessionStore
from chronos.api.auth.token_store import TokenStore, hash_token, new_token, read_tokens
from chronos.api.handlers import routes_with
from chronos.api.options import ApiOptions, CommandAuthor
from chronos.api.request import REQUEST_INFO

__all__ = [
    "REQUEST_INFO",
    "Access",
    "Api",
    "ApiOptions",
    "CommandAuthor",
    "Denials",
    "Permission",
    "Principal",
    "SessionStore",
    "TokenStore",
    "hash_password",
    "hash_token",
    "make_api",
    "new_token",
    "read_grant",
    "read_tokens",
    "read_users",
    "routes_with",
]
