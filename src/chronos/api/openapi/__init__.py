"""The OpenAPI document, made from the routes, and the page that shows it.

Handlers, and the descriptions of their routes, belong in ``handlers``.
"""
