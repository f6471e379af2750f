"""The engine: small loops over the core's decisions that make jobs run. See ``engine.py`` for how they fit together."""
