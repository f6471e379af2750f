"""Sign in, sign out, and the preferences of a viewer: theme and time zone."""

from urllib.parse import urlsplit

from aiohttp import web

from chronos.core.schedule.timezones import get_zone
from chronos.errors import Invalid
from chronos.ui.accounts import SignInRefused
from chronos.ui.headers import PAGE_HEADERS
from chronos.ui.visit import THEME_COOKIE, THEMES, ZONE_COOKIE, UiContext

SESSION_COOKIE = "chronos_session"
IDLE_S = 12 * 3600  # a session without a request of a person for this long ends
_YEAR_S = 365 * 86_400
_MAX_FORM_BYTES = 16 << 10
_MAX_FIELD_CHARS = 4_096


def set_session_cookie(response: web.StreamResponse, request: web.Request, value: str, base_path: str) -> None:
    """Send the cookie of a session. Scripts cannot read it, and pages of other sites do not send it."""
    response.set_cookie(
        SESSION_COOKIE,
        value,
        max_age=IDLE_S,
        path=base_path or "/",
        httponly=True,
        samesite="Lax",
        secure=is_encrypted(request),
    )


def is_encrypted(request: web.Request) -> bool:
    """Return whether the browser uses HTTPS, here or at a proxy. A client that lies about it only hurts itself."""
    forwarded = request.headers.get("X-Forwarded-Proto", "").split(",")[0].strip()
    return request.secure or forwarded == "https"


class SignInPages:
    """The pages around a session."""

    def __init__(self, ui: UiContext) -> None:
        self._ui = ui

    async def show(self, request: web.Request) -> web.Response:
        """Show the form, unless the viewer is signed in already."""
        visitor = await self._ui.accounts.find_visitor(request, is_active=True)
        if visitor.account is not None:
            return self._redirect(self._next_path(request.query.get("next")))
        return self._form(request, next_path=request.query.get("next", ""))

    async def sign_in(self, request: web.Request) -> web.Response:
        """Check the credentials of the form and start a session."""
        form = await _read_form(request)
        name, next_path = form.get("username", ""), form.get("next", "")
        try:
            cookie = await self._ui.accounts.sign_in(
                request, name=name, password=form.get("password", ""), token=form.get("token", "")
            )
        except SignInRefused as error:
            return self._form(request, next_path=next_path, name=name, error=error, is_token="token" in form)
        response = self._redirect(self._next_path(next_path))
        set_session_cookie(response, request, cookie, self._ui.options.base_path)
        return response

    async def sign_out(self, request: web.Request) -> web.Response:
        """End the session, or all sessions of the account."""
        form = await _read_form(request)
        await self._ui.accounts.sign_out(request, everywhere=form.get("everywhere") == "true")
        response = self._redirect(f"{self._ui.options.base_path}/login")
        response.del_cookie(SESSION_COOKIE, path=self._ui.options.base_path or "/")
        return response

    async def save_preferences(self, request: web.Request) -> web.Response:
        """Save the theme or the zone in a cookie, and go back to the page."""
        form = await _read_form(request)
        next_path = self._next_path(form.get("next"))
        response = self._redirect(next_path)
        if (theme := form.get("theme")) is not None:
            if theme not in THEMES:
                raise Invalid(f'the theme is "{theme[:64]}", allowed: {", ".join(THEMES)}')
            self._keep(response, request, THEME_COOKIE, theme)
        if (zone := form.get("zone", "").strip()) or "zone" in form:
            try:
                name = get_zone(zone).name if zone else self._ui.options.timezone
            except LookupError as error:
                raise Invalid(str(error)) from None
            self._keep(response, request, ZONE_COOKIE, name)
        return response

    def _keep(self, response: web.Response, request: web.Request, cookie: str, value: str) -> None:
        path = self._ui.options.base_path or "/"
        response.set_cookie(
            cookie, value, max_age=_YEAR_S, path=path, httponly=True, samesite="Lax", secure=is_encrypted(request)
        )

    def _form(
        self,
        request: web.Request,
        *,
        next_path: str,
        name: str = "",
        error: SignInRefused | None = None,
        is_token: bool = False,
    ) -> web.Response:
        base, assets = self._ui.options.base_path, self._ui.assets
        html = self._ui.renderer.bare(
            "login.html",
            base=base,
            css=f"{base}{assets['chronos.css'].path}",
            favicon=f"{base}{assets['icon.svg'].path}",
            theme=request.cookies.get(THEME_COOKIE, "system"),
            next=next_path[:_MAX_FIELD_CHARS],
            name=name[:200],
            error=error,
            is_token=is_token,
            host=request.host,
        )
        status = 200 if error is None else 401
        return web.Response(text=html, status=status, content_type="text/html", headers=PAGE_HEADERS)

    def _redirect(self, path: str) -> web.Response:
        return web.Response(status=303, headers={**PAGE_HEADERS, "Location": path})

    def _next_path(self, text: str | None) -> str:
        """Return the page to go to after the form. Only paths of this server are allowed."""
        home = f"{self._ui.options.base_path}/jobs"
        if not text or len(text) > _MAX_FIELD_CHARS or "\\" in text or not text.isprintable():
            return home
        try:
            parts = urlsplit(text)
        except ValueError:
            return home
        is_own = not parts.scheme and not parts.netloc and text.startswith(f"{self._ui.options.base_path}/")
        return text if is_own and not text.startswith("//") else home


async def _read_form(request: web.Request) -> dict[str, str]:
    """Read the fields of a small form. Raises ``Invalid``."""
    if request.content_type != "application/x-www-form-urlencoded" or (request.content_length or 0) > _MAX_FORM_BYTES:
        raise Invalid("the form cannot be read; reload the page and send it again")
    try:
        fields = await request.post()
    except ValueError:
        raise Invalid("the form cannot be read; reload the page and send it again") from None
    return {name: value[:_MAX_FIELD_CHARS] for name, value in fields.items() if isinstance(value, str)}
