"""Code shared by the commands of ``chronosctl``.

``client`` speaks HTTP, ``contexts`` chooses the server, ``options`` has the shared options, ``tables`` prints
tables, JSON and YAML, ``watch`` repeats a request. The commands themselves belong in ``commands``.
"""
