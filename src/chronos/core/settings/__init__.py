"""The cascade of settings beyond ``core.config``: origins of values, numbers of levels, profiles of gates.

Import from the modules.
"""
