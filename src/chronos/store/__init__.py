"""The source of truth: commands in, results out. ``contract`` and ``commands`` are all that others see."""
