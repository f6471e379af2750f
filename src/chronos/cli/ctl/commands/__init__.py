"""The commands of ``chronosctl``, one module per noun.

What several nouns share belongs in ``ctl``.
"""
