"""WebUi: the pages as routes of an aiohttp application, with sign-in, errors, compression and caching."""

import asyncio
import gzip
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import urlencode

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware
from structlog.contextvars import get_contextvars

from chronos.assembly import Service
from chronos.clock import Clock
from chronos.core.events import Event
from chronos.errors import ChronosError, Invalid, NotFound, Unavailable
from chronos.observe.delay_history import DelayHistory
from chronos.service.cooperative import TimeSlicer
from chronos.store.contract import Store
from chronos.ui.accounts import Accounts, Refused, SignInRefused
from chronos.ui.assets import Asset, load_assets
from chronos.ui.headers import PAGE_HEADERS
from chronos.ui.live import LiveSignals
from chronos.ui.navigation import MAX_LETTERS, Navigation
from chronos.ui.options import UiOptions
from chronos.ui.pages import PAGES
from chronos.ui.pages.sign_in import SignInPages, set_session_cookie
from chronos.ui.renderer import PageRenderer
from chronos.ui.visit import PlainText, Redirect, UiContext, View, Visit

log = logging.getLogger("chronos.ui")

PageHandler = Callable[[Visit], Awaitable[View | PlainText | Redirect]]
_ASSET_HEADERS = {
    "Cache-Control": "public, max-age=31536000, immutable",
    "Vary": "Accept-Encoding",
    "X-Content-Type-Options": "nosniff",
}
_STREAM_HEADERS = {"Content-Type": "text/event-stream", "Cache-Control": "no-store", "X-Accel-Buffering": "no"}
_GZIP_LEVEL = 5
_PREFIXES = ("/jobs", "/runs", "/timeline", "/dead-letters", "/cluster", "/audit", "/login", "/logout", "/static")


def make_ui(
    service: Service,
    store: Store,
    *,
    options: UiOptions,
    accounts: Accounts,
    status: Callable[[], dict[str, Any]],
    threats: Callable[[], Sequence[str]] = tuple,
    delays: DelayHistory,
    clock: Clock,
) -> "WebUi":
    """Build the web UI on an open store.

    - ``status`` returns the state of this node.
    - ``delays`` has the delays of this node.
    - ``threats`` returns what threatens the server, as sentences for every page.
    """
    signals = LiveSignals(
        store,
        clock,
        limit=options.max_streams,
        limit_each=options.max_streams_each,
        heartbeat_s=options.heartbeat_s,
    )
    return WebUi(
        UiContext(
            service=service,
            store=store,
            clock=clock,
            options=options,
            accounts=accounts,
            status=status,
            threats=threats,
            delays=delays,
            assets=load_assets(),
            renderer=PageRenderer(),
            navigation=Navigation(store, clock),
            signals=signals,
            slicer=TimeSlicer(),
        )
    )


def is_ui_path(path: str) -> bool:
    """Return whether a path, without the base path, belongs to the web UI."""
    return path == "/" or any(path == prefix or path.startswith(f"{prefix}/") for prefix in _PREFIXES)


class WebUi:
    """The pages of the web UI."""

    def __init__(self, ui: UiContext) -> None:
        self._ui = ui
        self._sign_in = SignInPages(ui)
        self._assets = {asset.path: asset for asset in ui.assets.values()}

    # --- what the server connects

    def add_routes(self, app: web.Application) -> None:
        """Add the routes, and end the streams when the application stops."""
        base, router = self._ui.options.base_path, app.router
        router.add_get(f"{base}/", self._guard(self._go_to_jobs))
        if base:
            router.add_get(base, self._guard(self._go_to_jobs))
        for path, page in PAGES.items():
            router.add_get(f"{base}{path}", self._make_handler(page))
        router.add_get(f"{base}/live", self._stream)
        router.add_get(f"{base}/static/{{file}}", self._send_asset)
        router.add_get(f"{base}/login", self._guard(self._sign_in.show))
        router.add_post(f"{base}/login", self._guard(self._sign_in.sign_in))
        router.add_post(f"{base}/logout", self._guard(self._sign_in.sign_out))
        router.add_post(f"{base}/preferences", self._guard(self._sign_in.save_preferences))
        app.on_shutdown.append(self._close)

    def middleware(self) -> Middleware:
        """Return the middleware that answers browsers at unknown paths with a page instead of a problem."""

        @web.middleware
        async def show_missing_page(request: web.Request, handler: Handler) -> web.StreamResponse:
            response = await handler(request)
            is_problem = response.status == 404 and response.content_type == "application/problem+json"
            path = request.path.removeprefix(self._ui.options.base_path)
            if is_problem and "text/html" in request.headers.get("Accept", "") and not path.startswith("/api/"):
                return self._error_page(request, NotFound("no page has this address"))
            return response

        return show_missing_page

    @property
    def has_viewers(self) -> bool:
        """Whether a page is open, so that events are needed."""
        return self._ui.signals.has_viewers

    def note_event(self, event: Event) -> None:
        """Tell open pages what an event of this node changes."""
        self._ui.signals.note_event(event)

    async def _close(self, _: web.Application) -> None:
        await self._ui.signals.close()

    # --- pages

    def _make_handler(self, page: PageHandler) -> Handler:
        async def show(request: web.Request) -> web.StreamResponse:
            ui = self._ui
            ui.accounts.refuse_cross_site(request)
            is_part = "part" in request.query
            visitor = await ui.accounts.find_visitor(request, is_active=not is_part)
            if visitor.account is None:
                return self._ask_to_sign_in(request, is_part=is_part)
            visit = Visit(
                request=request,
                ui=ui,
                account=visitor.account,
                now_us=ui.clock.now_us(),
                request_id=_request_id(),
            )
            answer = await page(visit)
            if isinstance(answer, Redirect):
                return web.Response(status=303, headers={**PAGE_HEADERS, "Location": answer.path})
            if isinstance(answer, PlainText):
                return web.Response(text=answer.text, content_type="text/plain", charset="utf-8", headers=PAGE_HEADERS)
            response = await self._render(visit, answer)
            if visitor.renewed_cookie is not None:
                set_session_cookie(response, request, visitor.renewed_cookie, ui.options.base_path)
            return response

        return self._guard(show)

    async def _render(self, visit: Visit, view: View) -> web.Response:
        part = visit.part
        if part is not None and part not in view.parts:
            raise NotFound(f'this page has no part "{part[:64]}"')
        shared = {} if part is not None else await self._shared_values(visit)
        is_compressed = _accepts_gzip(visit.request)
        render = self._ui.renderer

        def write() -> bytes:
            html = render.page(view, visit, shared) if part is None else render.part(view, part, visit, shared)
            body = html.encode(errors="replace")
            return gzip.compress(body, _GZIP_LEVEL, mtime=0) if is_compressed else body

        body = await self._ui.slicer.run_in_thread(write)
        return _html_response(body, status=view.status, is_compressed=is_compressed)

    async def _shared_values(self, visit: Visit) -> dict[str, Any]:
        """Return what the layout shows."""
        navigation, status = self._ui.navigation, self._ui.status()
        letters = await navigation.count_letters(visit.namespace) if visit.account.sees(visit.namespace) else 0
        return {
            "letters": letters,
            "max_letters": MAX_LETTERS,
            "namespaces": await navigation.namespaces(visit.account),
            "server": status,
            "threats": self._ui.threats(),
        }

    def _guard(self, handler: Handler) -> Handler:
        """Return the handler with its errors shown as pages."""

        async def guarded(request: web.Request) -> web.StreamResponse:
            try:
                self._ui.accounts.refuse_cross_site(request)
                return await handler(request)
            except (ChronosError, TimeoutError) as error:
                return self._error_page(request, error)
            except (web.HTTPException, ConnectionError, asyncio.CancelledError):
                raise
            except Exception as error:
                log.exception("page failed", extra={"path": request.path})
                return self._error_page(request, error)

        return guarded

    async def _go_to_jobs(self, _: web.Request) -> web.StreamResponse:
        return web.Response(status=303, headers={**PAGE_HEADERS, "Location": f"{self._ui.options.base_path}/jobs"})

    def _ask_to_sign_in(self, request: web.Request, *, is_part: bool) -> web.Response:
        """Answer a viewer who is not signed in: with the sign-in page, or 401 for a region of an open page."""
        base = self._ui.options.base_path
        query = "" if request.path_qs == f"{base}/jobs" else f"?{urlencode({'next': request.path_qs})}"
        headers = {**PAGE_HEADERS, "Location": f"{base}/login{query}"}
        return web.Response(status=401 if is_part else 303, headers=headers)

    def _error_page(self, request: web.Request, error: BaseException) -> web.Response:
        status, title, message = _describe_error(error)
        html = self._ui.renderer.bare(
            "error.html",
            title=title,
            message=message,
            request_id=_request_id(),
            base=self._ui.options.base_path,
            css=f"{self._ui.options.base_path}{self._ui.assets['chronos.css'].path}",
            theme=request.cookies.get("chronos_theme", "system"),
            retry=request.path_qs if status >= 500 else None,
        )
        is_compressed = _accepts_gzip(request)
        body = html.encode(errors="replace")
        return _html_response(
            gzip.compress(body) if is_compressed else body, status=status, is_compressed=is_compressed
        )

    # --- files and streams

    async def _send_asset(self, request: web.Request) -> web.StreamResponse:
        asset: Asset | None = self._assets.get(f"/static/{request.match_info['file']}")
        if asset is None:
            raise web.HTTPNotFound
        headers = {**_ASSET_HEADERS, "Content-Type": asset.content_type}
        if _accepts_gzip(request):
            return web.Response(body=asset.compressed, headers={**headers, "Content-Encoding": "gzip"})
        return web.Response(body=asset.body, headers=headers)

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        """Send signals until the page or the server closes."""
        ui = self._ui
        ui.accounts.refuse_cross_site(request)
        visitor = await ui.accounts.find_visitor(request, is_active=False)
        if visitor.account is None:
            return web.Response(status=401, headers=PAGE_HEADERS)
        visit = Visit(
            request=request, ui=ui, account=visitor.account, now_us=ui.clock.now_us(), request_id=_request_id()
        )
        clients = (visit.account.name, f"the address {ui.accounts.name_client(request)}")
        with ui.signals.watch(visit.account, visit.namespace, *clients) as viewer:
            response = web.StreamResponse(headers={**PAGE_HEADERS, **_STREAM_HEADERS})
            await response.prepare(request)
            with suppress(ConnectionError, TimeoutError):
                async for chunk in ui.signals.chunks(viewer):
                    async with asyncio.timeout(ui.options.write_timeout_s):
                        await response.write(chunk)
        return response


def _describe_error(error: BaseException) -> tuple[int, str, str]:
    """Return the status, the title and the sentence for an error."""
    text = str(error)
    sentence = f"{text[:1].upper()}{text[1:]}."
    match error:
        case SignInRefused():
            return 401, "Not signed in", f"{text}. {error.hint}".strip()
        case NotFound():
            return 404, "Not found", sentence
        case Refused():
            return 403, "No access", sentence
        case Invalid():
            return 400, "Cannot be shown", sentence
        case Unavailable():
            return 503, "Not available now", sentence
        case TimeoutError():
            return 503, "Not available now", "The store did not respond in time."
        case ChronosError():
            return 409, "Cannot be shown", sentence
        case _:
            return 500, "Something went wrong", "The server could not render this page. Its log has the details."


def _html_response(body: bytes, *, status: int, is_compressed: bool) -> web.Response:
    headers = {**PAGE_HEADERS, **({"Content-Encoding": "gzip"} if is_compressed else {})}
    return web.Response(body=body, status=status, content_type="text/html", charset="utf-8", headers=headers)


def _accepts_gzip(request: web.Request) -> bool:
    return "gzip" in request.headers.get("Accept-Encoding", "").lower()


def _request_id() -> str:
    """Return the id that the log has for this request."""
    return str(get_contextvars().get("request_id", ""))
