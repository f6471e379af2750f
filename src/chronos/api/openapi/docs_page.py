"""HTML pages of the documentation: the API and its problems. They have no scripts or external files, so they work
offline.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from html import escape
from typing import Any

from chronos.api.openapi.document import needs, operation_id
from chronos.api.problems import INTERNAL, KINDS, PROBLEMS_PATH, ProblemKind
from chronos.api.routing import Body, Route

#: The content security policy allows this style by its hash, and no scripts.
STYLE = """
:root{color-scheme:light dark;--line:#8884;--quiet:#6a737d;--code:#8881}
body{font:14px/20px system-ui,sans-serif;margin:0 auto;max-width:60rem;padding:1rem}
h1{font-size:20px}h2{font-size:16px;border-bottom:1px solid var(--line);margin-top:2rem}
code,pre{font:13px/18px ui-monospace,monospace}pre{background:var(--code);padding:.5rem;overflow:auto}
details{border-bottom:1px solid var(--line);padding:.4rem 0}summary{cursor:pointer}
table{border-collapse:collapse}td{padding:.1rem 1rem .1rem 0;vertical-align:top}
.method{display:inline-block;min-width:4.5rem;font-weight:600}.quiet{color:var(--quiet)}
nav a{margin-right:1rem}
"""


def page(routes: Iterable[Route], base_path: str) -> str:
    """Build the page of the API."""
    by_tag: dict[str, list[Route]] = {}
    for route in routes:
        by_tag.setdefault(route.tag, []).append(route)
    nav = "".join(f'<a href="#{_anchor(tag)}">{escape(tag)}</a>' for tag in by_tag)
    body = "".join(_section(tag, listed, base_path) for tag, listed in by_tag.items())
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Chronos API</title>'
        '<meta name="viewport" content="width=device-width">'
        f"<style>{STYLE}</style></head><body><h1>Chronos API</h1>"
        "<p>JSON in, JSON out. Times are RFC 3339 in UTC. Errors are <code>application/problem+json</code> with a "
        f'stable <code>code</code>, <a href="{escape(base_path)}{PROBLEMS_PATH}">explained here</a>. '
        f'For programs: <a href="{escape(base_path)}/openapi.json">openapi.json</a>.</p>'
        f"<nav>{nav}</nav>{body}</body></html>"
    )


def problems_page(base_path: str) -> str:
    """Build the page that explains every problem code."""
    kinds = {kind.code: kind for kind in (*KINDS, INTERNAL)}
    body = "".join(_problem(kinds[code]) for code in sorted(kinds))
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Chronos API problems</title>'
        '<meta name="viewport" content="width=device-width">'
        f"<style>{STYLE}</style></head><body><h1>Problems</h1>"
        "<p>Every error of the API has one of these codes. The <code>detail</code> of an error says what is wrong in "
        f'the request at hand. All routes: <a href="{escape(base_path)}/docs">API</a>.</p>{body}</body></html>'
    )


def _problem(kind: ProblemKind) -> str:
    return (
        f'<h2 id="{kind.code}"><code>{kind.code}</code></h2><p><b>{kind.status}</b> {escape(kind.title)}</p>'
        f"<p>Cause: {_code(kind.cause)}</p><p>Fix: {_code(kind.fix)}</p>"
    )


def _code(text: str) -> str:
    """Escape a text, and mark what stands in backticks as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text, quote=False))


def _section(tag: str, routes: Iterable[Route], base_path: str) -> str:
    return f'<h2 id="{_anchor(tag)}">{escape(tag)}</h2>' + "".join(_route(route, base_path) for route in routes)


def _route(route: Route, base_path: str) -> str:
    return (
        f'<details id="{escape(operation_id(route))}"><summary><span class="method">{route.method}</span>'
        f"<code>{escape(base_path + route.path)}</code> "
        f'<span class="quiet">{escape(route.summary)}</span></summary>'
        f"<p>{escape(needs(route))}</p>{_parameters(route)}{_body(route.body)}{''.join(_responses(route))}</details>"
    )


def _parameters(route: Route) -> str:
    rows = [(param.name, param.description) for param in route.query]
    if route.honours_if_match:
        rows.append(("If-Match", "header: the ETag of the version you read"))
    if route.idempotent_by_key:
        rows.append(("Idempotency-Key", "header: repeated requests with the same key take effect once"))
    cells = "".join(
        f"<tr><td><code>{escape(name)}</code></td><td>{escape(description)}</td></tr>" for name, description in rows
    )
    return f"<table>{cells}</table>" if rows else ""


def _body(body: Body | None) -> str:
    return "" if body is None else f"<p>Body: <code>{escape(body.types[0])}</code></p>{_json(body.example)}"


def _responses(route: Route) -> Iterator[str]:
    for status, response in sorted(route.returns.items()):
        yield f"<p><b>{status}</b> {escape(response.description)}</p>"
        if response.example is not None:
            yield _json(response.example)


def _json(value: Mapping[str, Any] | Any) -> str:
    return f"<pre>{escape(json.dumps(value, indent=2, ensure_ascii=False))}</pre>"


def _anchor(tag: str) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in tag.lower())
