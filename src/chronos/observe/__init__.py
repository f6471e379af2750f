"""What can be watched from outside: metrics and log lines, made of the engine's events and of cheap reads."""
