"""Audit: who changed what, newest first. For admins."""

from chronos.core.node import AuditEntry
from chronos.store.contract import Page
from chronos.ui.accounts import Refused
from chronos.ui.visit import View, Visit

ROWS = 100


async def show(visit: Visit) -> View:
    """Show a page of the audit log."""
    is_admin = visit.account.administers(None)
    if not is_admin and not visit.account.administers(visit.namespace):
        raise Refused(
            f"you can view {visit.namespace} but not its audit log. Ask an admin of {visit.namespace} for access"
        )
    wanted = visit.text("in")
    scope = None if is_admin and wanted != "namespace" else visit.namespace
    page: Page[AuditEntry] = await visit.ui.store.audit(namespace=scope, limit=ROWS, cursor=visit.cursor())
    values = {
        "entries": page.items,
        "is_everywhere": scope is None,
        "may_see_all": is_admin,
        "is_first": visit.cursor() is None,
        "next": None if page.cursor is None else page.cursor.hex(),
    }
    return View(template="audit.html", values=values)
