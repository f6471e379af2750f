"""``Chronos("http://…")``: the same app, as a client of a server.

``http_client`` sends requests with retries and turns problems into errors, ``session`` replaces store and engine,
``responses`` reads JSON; ``app``, ``job`` and ``run`` are what users hold. Running jobs belongs in
``sdk.runtime``.
"""
