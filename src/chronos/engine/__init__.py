"""One node: the loops that make jobs run. ``engine.Engine`` builds them and starts them.

``scheduling`` leads from the clock to an admitted execution, ``execution`` from a claim to a settled one, and
``maintenance`` repairs and tidies. Decisions belong in ``chronos.core``, targets in ``chronos.runners``.
"""
