"""Rows about the settings of the web UI. ``test_setting_effects.py`` runs them."""

from tests.server.setting_effects import Served, served


@served("ui.enabled", False, usually=200, then=404)
async def whether_there_is_a_web_ui(server: Served) -> int:
    return (await server.call("GET", "/jobs")).status


@served("ui.read_only", True, usually=False, then=True)
async def whether_pages_say_that_they_are_read_only(server: Served) -> bool:
    return b"<span>Read only</span>" in (await server.call("GET", "/jobs")).body


@served("ui.timezone", "Asia/Kathmandu", usually=False, then=True)
async def whether_pages_use_another_zone(server: Served) -> bool:
    return b"Times in Asia/Kathmandu (UTC+5:45)" in (await server.call("GET", "/jobs")).body
