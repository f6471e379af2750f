"""The command line: ``chronos`` runs a server and maintains its store, ``chronosctl`` is the client of a server.

``main`` has the two programs and turns errors into messages and exit codes; ``output`` writes. Command modules import
click and ``output`` at the top and everything else inside their commands, because ``--help`` imports all of them. Work
that the server does for a command belongs in ``chronos.service``.
"""
