"""Runners: one package or module per kind of target. ``contract`` defines what a runner must do.

A runner makes one attempt of one task and returns an outcome. Retries, timeouts and records belong in
``engine.execution``.
"""
