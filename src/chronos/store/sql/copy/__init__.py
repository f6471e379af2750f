"""Copies a store to another one, table by table, on any pair of engines.

``tables`` lists what is copied, ``commands`` has the writes, and ``store_copy`` compares, copies and verifies. How a
store is opened and which stores may be copied is decided above, in ``chronos.assembly`` and ``chronos.server``.
"""
