"""Visit: one request of a browser as a page sees it, with the viewer, the zone, the parameters and the addresses."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from aiohttp import web

from chronos.assembly import Service
from chronos.clock import Clock
from chronos.core.job import DEFAULT_NAMESPACE, Job
from chronos.core.schedule.iso8601 import parse_instant
from chronos.core.schedule.timezones import Zone, get_zone
from chronos.errors import NotFound
from chronos.observe.delay_history import DelayHistory
from chronos.service.cooperative import TimeSlicer
from chronos.service.serializers.identifiers import find_name_fault
from chronos.service.why_steps import WhyRef
from chronos.store.contract import Store
from chronos.ui.accounts import Account, Accounts
from chronos.ui.assets import Asset
from chronos.ui.options import UiOptions
from chronos.ui.time_text import Times

if TYPE_CHECKING:
    from chronos.ui.live import LiveSignals
    from chronos.ui.navigation import Navigation
    from chronos.ui.renderer import PageRenderer

THEMES = ("system", "light", "dark")
THEME_COOKIE, ZONE_COOKIE = "chronos_theme", "chronos_zone"
_MAX_PARAMETER = 2_048


@dataclass(frozen=True, slots=True, kw_only=True)
class UiContext:
    """Everything that visits share."""

    service: Service
    store: Store
    clock: Clock
    options: UiOptions
    accounts: Accounts
    status: Callable[[], dict[str, Any]]  # of this node
    threats: Callable[[], Sequence[str]]  # to the server, as sentences
    delays: DelayHistory  # of this node
    assets: Mapping[str, Asset]
    renderer: "PageRenderer"
    navigation: "Navigation"
    signals: "LiveSignals"
    slicer: TimeSlicer


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """The answer of a page: a template, its values, and the regions that can be fetched alone."""

    template: str
    values: Mapping[str, Any]
    parts: tuple[str, ...] = ()
    status: int = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Redirect:
    """The answer of a page that is elsewhere."""

    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainText:
    """The answer of a page that is only text."""

    text: str


@dataclass(slots=True, kw_only=True)
class Visit:
    """One request of a signed-in viewer."""

    request: web.Request
    ui: UiContext
    account: Account
    now_us: int
    request_id: str
    notes: list[str] = field(default_factory=list)  # about parameters that were ignored
    times: Times = field(init=False)
    namespace: str = field(init=False)

    def __post_init__(self) -> None:
        self.times = Times(self._choose_zone(), self.now_us)
        self.namespace = self._choose_namespace()

    # --- preferences

    @property
    def theme(self) -> str:
        """The theme of the viewer."""
        theme = self.request.cookies.get(THEME_COOKIE, "system")
        return theme if theme in THEMES else "system"

    def _choose_zone(self) -> Zone:
        """Return the zone of the address, of the viewer's cookie, or of the server."""
        for name in (self.text("tz"), self.request.cookies.get(ZONE_COOKIE)):
            if name:
                try:
                    return get_zone(name)
                except LookupError as error:
                    self.notes.append(f"The address is not understood: {error}")
        return get_zone(self.ui.options.timezone)

    def _choose_namespace(self) -> str:
        """Return the namespace of the address. Raises ``NotFound`` for one that the viewer may not see."""
        name = self.text("ns") or DEFAULT_NAMESPACE
        if find_name_fault(name) is not None or not self.account.sees(name):
            if name == DEFAULT_NAMESPACE:
                return name  # pages of a viewer without a role there are empty
            raise NotFound(f'namespace "{name[:200]}" not found')
        return name

    # --- addresses

    def url(self, path: str, **query: Any) -> str:
        """Return the address of a page, with the namespace and the zone of this visit. None leaves a parameter out."""
        kept = {
            "ns": None if self.namespace == DEFAULT_NAMESPACE else self.namespace,
            "tz": None if self.times.zone.name == self.ui.options.timezone else self.times.zone.name,
        }
        pairs = {name: value for name, value in (query | kept).items() if value is not None and value != ""}
        return f"{self.ui.options.base_path}{path}{f'?{urlencode(pairs)}' if pairs else ''}"

    def job_url(self, name: str, tab: str = "", **query: Any) -> str:
        """Return the address of a job, or of one of its tabs."""
        return self.url(f"/jobs/{quote(name, safe='')}{tab}", **query)

    def run_url(self, run: str, **query: Any) -> str:
        """Return the address of a run."""
        return self.url(f"/runs/{run}", **query)

    def evidence_url(self, ref: WhyRef) -> str | None:
        """Return the address of something that an explanation names, or None."""
        match ref.kind:
            case "run":
                return self.run_url(ref.id)
            case "job":
                return self.job_url(ref.id)
            case "node":
                return self.url("/cluster")
            case "dead_letter":
                return self.url("/dead-letters")
            case _:
                return None

    def asset_url(self, name: str) -> str:
        """Return the address of a static file."""
        return f"{self.ui.options.base_path}{self.ui.assets[name].path}"

    # --- parameters

    @property
    def part(self) -> str | None:
        """The region that is fetched alone, or None."""
        return self.text("part")

    def text(self, name: str) -> str | None:
        """Return a parameter, or None. Text that no store can hold counts as absent."""
        value = self.request.query.get(name)
        if value is None or len(value) > _MAX_PARAMETER or "\0" in value or not _is_unicode(value):
            return None
        return value

    def choice(self, name: str, allowed: tuple[str, ...]) -> str:
        """Return a parameter that is one of the allowed words; else the first of them, with a note."""
        value = self.text(name)
        if value in allowed:
            return value
        if value:
            self.notes.append(f'The address has {name}="{value[:64]}", allowed: {", ".join(allowed)}.')
        return allowed[0]

    def number(self, name: str) -> int | None:
        """Return a whole number, or None."""
        value = self.text(name)
        if value is None:
            return None
        if value.isascii() and value.isdigit() and len(value) < 16:
            return int(value)
        self.notes.append(f'The address has {name}="{value[:64]}", which is not a number.')
        return None

    def cursor(self, name: str = "cursor") -> bytes | None:
        """Return the position of a page of a list, or None for the first page."""
        value = self.text(name)
        if value is None:
            return None
        try:
            return bytes.fromhex(value)
        except ValueError:
            self.notes.append(f"The address has an unreadable {name}; this is the first page.")
            return None

    def instant_us(self, name: str, zone: Zone) -> int | None:
        """Return an instant, read in a zone if it names none; or None."""
        value = self.text(name)
        if value is None:
            return None
        found_us = parse_instant(value.strip().replace(" ", "T"), zone) if len(value) <= 64 else None
        if found_us is None:
            self.notes.append(f'"{value[:64]}" is not a time. Write it like 2026-11-08 02:00.')
        return found_us

    # --- the job of the path

    async def find_job(self) -> Job:
        """Return the job of the path. A job that the viewer may not see is not found."""
        name = self.request.match_info["name"]
        if "\0" in name or not self.account.sees(self.namespace):
            raise NotFound(f'job "{name[:200]}" not found in the namespace "{self.namespace}"')
        job = await self.ui.service.jobs.get(name, self.namespace)
        if not self.account.sees(job.namespace):
            raise NotFound(f'job "{name[:200]}" not found in the namespace "{self.namespace}"')
        return job


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
