"""All nouns of ``chronosctl`` that need a server, in one place for the program to take them from."""

import click

from chronos.cli.ctl import applying, backfilling, changing, creating
from chronos.cli.ctl.contexts import context
from chronos.cli.ctl.deadletters import dlq
from chronos.cli.ctl.executions import executions
from chronos.cli.ctl.jobs import jobs
from chronos.cli.ctl.login import login, logout
from chronos.cli.ctl.system import audit, cluster, namespaces, nodes, queues, status
from chronos.cli.ctl.tokens import tokens, users

#: Modules that add verbs to a noun of another module.
VERBS = (applying, backfilling, changing, creating)
NOUNS: tuple[click.Command, ...] = (
    jobs,
    executions,
    dlq,
    status,
    cluster,
    nodes,
    queues,
    namespaces,
    audit,
    tokens,
    users,
    context,
    login,
    logout,
)
ALIASES = {"runs": "executions"}
