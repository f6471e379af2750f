"""Repairs and tidying on a node: takeovers, wake-ups, retention, the outbox.

Nothing here runs a job's work: that belongs in ``execution``.
"""
