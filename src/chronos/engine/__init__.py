"""The engine of one node: the loops that make jobs run. ``engine.Engine`` builds and starts them.

``scheduling`` leads from the clock to an admitted execution, ``execution`` from a claim to a settled one.
``maintenance`` repairs and tidies. Decisions belong in ``chronos.core``, targets in ``chronos.runners``.
"""
