"""The copy of a store to another one, table by table, on any pair of engines.

``tables`` lists what is copied, ``commands`` has the writes, and ``store_copy`` compares, copies and verifies. Which
stores may be copied belongs in ``chronos.server``.
"""
