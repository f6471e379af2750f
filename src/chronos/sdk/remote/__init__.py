"""``Chronos("http://…")``: the same app, as a client of a server.

``wire`` speaks HTTP and knows errors and retries, ``remote`` is what stands behind the app instead of a store,
``values`` reads answers, ``app``, ``job`` and ``run`` are what users hold.
"""
