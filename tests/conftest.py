"""Settings of the whole suite: generated tests are the same in every run, unless asked to explore.

``HYPOTHESIS_PROFILE=explore make test`` looks at other and many more examples.
"""

import os
import signal

from hypothesis import settings

settings.register_profile("deterministic", derandomize=True, deadline=None)
settings.register_profile("explore", max_examples=2_000, deadline=None, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "deterministic"))

# A shell that starts the suite in the background has it ignore Ctrl-C, and so would every program that a test starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
