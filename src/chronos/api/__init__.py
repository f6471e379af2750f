"""The REST API, a face on the service layer.

``table`` has every route, put together from one module a noun (``jobs``, ``executions``, …). From it follow the routing
(``app``), the permission check (``pipeline``, ``access``), OpenAPI (``openapi``) and the page of documentation
(``docs``). Handlers see a ``call``; what goes wrong is one table in ``problems``.
"""

from chronos.api.access import Access, read_grant, read_users
from chronos.api.app import Api, make_api
from chronos.api.call import ABOUT
from chronos.api.options import ApiOptions, CommandAuthor
from chronos.api.passwords import hash_password
from chronos.api.table import routes_with
from chronos.api.tokenbook import TokenBook, hash_token, new_token, read_tokens

__all__ = [
    "ABOUT",
    "Access",
    "Api",
    "ApiOptions",
    "CommandAuthor",
    "TokenBook",
    "hash_password",
    "hash_token",
    "make_api",
    "new_token",
    "read_grant",
    "read_tokens",
    "read_users",
    "routes_with",
]
