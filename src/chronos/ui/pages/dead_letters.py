"""Dead letters: failed runs that someone has to replay or discard, grouped by their error."""

from typing import Any

from chronos.errors import NotFound
from chronos.service.serializers import id_text
from chronos.service.views.dead_letter_groups import GroupBy
from chronos.ui.charts.trend import draw_trend
from chronos.ui.visit import View, Visit

_MAX_GROUPS = 50
_MAX_SHOWN = 50  # letters of the open group


async def show(visit: Visit) -> View:
    """Show the dead letters of a namespace by error, those of one group in full."""
    if not visit.account.sees(visit.namespace):
        raise NotFound(f'namespace "{visit.namespace}" not found')
    letters = visit.ui.service.views.dead_letters
    query = (visit.text("q") or "").strip()
    by = GroupBy(visit.choice("by", ("error", "job")))
    found = await letters.groups(namespace=visit.namespace, text=query or None, by=by)
    open_key = visit.text("open") or (found.groups[0].key if found.groups else "")
    shown, cursor = await letters.letters(
        namespace=visit.namespace, text=query or None, group=open_key, limit=_MAX_SHOWN, cursor=visit.cursor()
    )
    values: dict[str, Any] = {
        "groups": found.groups[:_MAX_GROUPS],
        "more_groups": max(0, len(found.groups) - _MAX_GROUPS),
        "total": found.letters,
        "job_count": len({name for group in found.groups for name in group.job_names}),
        "is_complete": found.complete,
        "q": query,
        "by": by.value,
        "open_key": open_key,
        "letters_shown": shown,
        "next": None if cursor is None else cursor.hex(),
        "id_text": id_text,
        "trend": draw_trend,
    }
    return View(template="dead_letters.html", values=values, parts=("groups",))
