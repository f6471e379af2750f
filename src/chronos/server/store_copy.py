"""Copies a store to another one, after it has checked that no node uses either of them."""

from collections.abc import Callable
from contextlib import AsyncExitStack

from chronos.assembly import (
    copy_rows,
    hide_url_password,
    is_in_memory,
    make_copy_target,
    make_visitor,
    parse_sqlite_file,
)
from chronos.clock import Clock
from chronos.errors import Conflict, Invalid
from chronos.service.live_nodes import find_live_nodes
from chronos.store.contract import Store


async def copy_store(
    source_url: str, target_url: str, clock: Clock, *, progress: Callable[[str, int], None]
) -> dict[str, int]:
    """Copy everything, or finish a copy that was interrupted. Returns the number of rows by table.

    Raises ``Conflict`` if a node uses one of the stores, or if the target has other contents.
    """
    if is_in_memory(source_url):
        raise Invalid("a store in memory cannot be copied; name a file: sqlite:///FILE")
    if _identify(source_url) == _identify(target_url):
        raise Invalid("the source and the target are the same store; name another target")
    async with AsyncExitStack() as stack:
        source = make_visitor(source_url, lambda _: ())
        await _open(source, stack)
        await _check_unused(source, source_url, clock)
        target = make_copy_target(target_url)
        _check_folder(target_url)
        await _open(target, stack)
        await _check_unused(target, target_url, clock)
        return await copy_rows(source, target, source_name=_identify(source_url), progress=progress)


async def _open(store: Store, stack: AsyncExitStack) -> None:
    await store.open()
    stack.push_async_callback(store.close)


async def _check_unused(store: Store, url: str, clock: Clock) -> None:
    now_us = await store.clock_us()
    live = find_live_nodes(await store.nodes(), clock.now_us() if now_us is None else now_us)
    if live:
        names = " and ".join(f'"{node.name}"' for node in live)
        raise Conflict(
            f"{hide_url_password(url)} is in use by {'node' if len(live) == 1 else 'the nodes'} {names}; "
            "stop every server and program that uses it, then run the command again"
        )


def _check_folder(url: str) -> None:
    path = parse_sqlite_file(url)
    if path is not None and not path.absolute().parent.is_dir():
        raise Invalid(f"{path.parent} is not a folder; create it, or name another file")


def _identify(url: str) -> str:
    """Return the same text for URLs of the same store, as far as the URL tells."""
    path = parse_sqlite_file(url)
    return hide_url_password(url) if path is None else f"sqlite:{path.absolute().resolve()}"
