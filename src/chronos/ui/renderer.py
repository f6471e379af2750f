"""PageRenderer: turns a view into HTML with the compiled templates. Every value is escaped unless it is markup."""

import re
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from chronos.core.schedule.durations import format_duration
from chronos.ui.status_words import StatusWord, find_word
from chronos.ui.time_text import Times
from chronos.ui.visit import View, Visit

_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_REVERSING = re.compile("[\u202a-\u202e\u2066-\u2069]")
_INVISIBLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_DETAILS = re.compile(r", (?:from \d|until |with jitter |except |counted from |taking clock )")


class PageRenderer:
    """Renders templates, which are all compiled when it is made."""

    def __init__(self) -> None:
        self._environment = Environment(
            loader=PackageLoader("chronos.ui"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
            extensions=["jinja2.ext.do"],
        )
        self._environment.globals |= {
            "icon": icon,
            "status": status_tag,
            "pill": status_pill,
            "when": time_tag,
            "countdown": countdown_tag,
            "duration": duration_text,
            "count": count_text,
            "plural": plural,
            "word": find_word,
            "brief": brief_schedule,
        }
        self._templates = {name: self._environment.get_template(name) for name in self._environment.list_templates()}

    def page(self, view: View, visit: Visit, shared: dict[str, Any]) -> str:
        """Render the whole page."""
        return _defuse(self._templates[view.template].render(**shared, **view.values, v=visit, times=visit.times))

    def part(self, view: View, part: str, visit: Visit, shared: dict[str, Any]) -> str:
        """Render one region: the block of this name, as it is within the page."""
        template = self._templates[view.template]
        context = template.new_context({**shared, **view.values, "v": visit, "times": visit.times})
        return _defuse("".join(template.blocks[part](context)))

    def bare(self, template: str, **values: Any) -> str:
        """Render a page outside the layout, for viewers who are not signed in."""
        return _defuse(self._templates[template].render(**values))


def _defuse(html: str) -> str:
    """Drop control characters, and show characters that reverse the text after them as "�".

    Names, errors and output come from anywhere. Escaping keeps them from being markup; these characters could still
    make a page read differently from what it says.
    """
    if _INVISIBLE.search(html) is None:
        return html
    return _REVERSING.sub("�", _CONTROLS.sub("", html))


# --- functions of the templates


def icon(name: str) -> Markup:
    """Draw a symbol of the sprite."""
    return Markup(f'<svg class="i" aria-hidden="true"><use href="#i-{name}"/></svg>')


def status_tag(name: str, word: str | None = None, *, title: str | None = None) -> Markup:
    """Show a status: its icon and its word, in its colour."""
    return _write_status("st", find_word(name), word, title)


def status_pill(name: str, word: str | None = None) -> Markup:
    """Show a status beside a title."""
    return _write_status("st pill", find_word(name), word, None)


def _write_status(css: str, shown: StatusWord, word: str | None, title: str | None) -> Markup:
    tooltip = Markup(' title="{}"').format(title) if title else ""
    return Markup('<span class="{}" data-s="{}"{}>{}{}</span>').format(
        css, shown.s, tooltip, icon(shown.icon), word or shown.word
    )


def time_tag(times: Times, us: int | None, text: str | None = None) -> Markup:
    """Show an instant: a ``<time>`` with everything in its tooltip."""
    if us is None:
        return Markup('<span class="quiet">–</span>')
    return Markup('<time datetime="{}" title="{}">{}</time>').format(
        times.rfc3339(us), times.title(us), text if text is not None else times.clock(us)
    )


def countdown_tag(times: Times, us: int, *, long: bool = False) -> Markup:
    """Show how long it is until an instant. The browser counts down."""
    text = times.until_long(us) if long else times.until(us)
    return Markup('<time datetime="{}" title="{}" data-until="{}"{}>{}</time>').format(
        times.rfc3339(us), times.title(us), us // 1_000, Markup(" data-long") if long else "", text
    )


def duration_text(us: int | None) -> Markup:
    """Show a duration, or a dash."""
    return Markup('<span class="quiet">–</span>') if us is None else escape(format_duration(max(0, us)))


def brief_schedule(words: str) -> str:
    """Return the words of a schedule without its start, end, jitter and exclusions, for a list."""
    return _DETAILS.split(words, maxsplit=1)[0]


def count_text(number: int, limit: int | None = None) -> str:
    """``1,284``, or ``10,000+`` for a count that stopped at its limit."""
    return f"{limit:,}+" if limit is not None and number > limit else f"{number:,}"


def plural(number: int, one: str, many: str | None = None) -> str:
    """``1 run``, ``2 runs``."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"
