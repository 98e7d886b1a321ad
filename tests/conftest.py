"""The same examples on every run: a red test is a change, not bad luck."""

import atexit
import os
import shutil
import tempfile

from hypothesis import settings

settings.register_profile("fixed", derandomize=True, deadline=None, max_examples=200)
settings.load_profile("fixed")

# Tests must not depend on, or write to, the cache of whoever runs them.
os.environ["MURMUR_CACHE"] = tempfile.mkdtemp(prefix="murmur-test-cache-")
atexit.register(shutil.rmtree, os.environ["MURMUR_CACHE"], ignore_errors=True)
