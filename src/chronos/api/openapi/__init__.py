"""The OpenAPI document, built from the routes, and its HTML pages.

Handlers and the descriptions of their routes belong in ``handlers``.
"""
