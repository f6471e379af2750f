"""``Chronos("http://…")``: the same app, as a client of a server.

``http_client`` sends requests, repeats them, and turns problem responses into errors. ``session`` replaces the store
and the engine. ``responses`` reads JSON. Users hold the objects of ``app``, ``job`` and ``run``. Code that runs jobs
belongs in ``sdk.runtime``.
"""
