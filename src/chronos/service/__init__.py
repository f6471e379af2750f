"""The use cases that every interface shares: save, apply, pause, trigger, backfill, explain, preview.

``serializers`` turns JSON into definitions and records into JSON. Nothing here runs a loop or speaks HTTP: that belongs
in ``chronos.engine`` and ``chronos.api``.
"""
