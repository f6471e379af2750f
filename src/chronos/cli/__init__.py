"""The command line: ``chronos`` runs a server and looks after its store, ``chronosctl`` talks to a server.

``main`` has the two programs and turns errors into messages and exit codes; ``output`` writes. Command modules import
click and ``output`` at their top and everything else inside their commands, because ``--help`` imports each of them.
What a command does on the server belongs in ``chronos.service``.
"""
