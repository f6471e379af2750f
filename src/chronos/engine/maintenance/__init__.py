"""Repairs and tidying on a node: takeovers, wake-ups, retention, the outbox.

Running a job's work belongs in ``execution``.
"""
