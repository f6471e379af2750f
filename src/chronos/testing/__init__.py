"""What Chronos gives to tests: the store's conformance suite, for every engine and for yours."""
