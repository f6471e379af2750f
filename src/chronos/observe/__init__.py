"""Consumers of the engine's events: metrics and log lines.

Nothing here changes what the engine does. Events themselves belong in ``core.events``.
"""
