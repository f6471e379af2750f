"""The command line: ``chronos`` for what runs, ``chronosctl`` for what one asks of it.

``main`` has the two programs and turns errors into messages and exit codes, ``output`` writes, and every other module
is one group of commands. These import click and ``output`` at their top and all else inside their commands, because
``--help`` imports each of them.
"""
