"""Observability: turns the engine's events into metrics and log lines.

Nothing here changes what the engine does. The events themselves belong in ``core.events``.
"""
