"""The commands of ``chronosctl``, one module per noun.

Code that several nouns share belongs in ``ctl``.
"""
