"""What all tests share: the cache of the programs they start is not that of whoever runs them."""

import atexit
import os
import shutil
import tempfile

CACHE = tempfile.mkdtemp(prefix="kscope-tests-cache-")
os.environ["XDG_CACHE_HOME"] = CACHE
os.environ.pop("KSCOPE_CACHE_SIZE", None)
atexit.register(shutil.rmtree, CACHE, ignore_errors=True)
