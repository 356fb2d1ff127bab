"""What all tests share: programs that they start keep no cache. It would be that of whoever runs
the tests, and a second report would compare what was kept with itself. tests/cli/test_cache.py
names folders of its own."""

import os

os.environ["XDG_CACHE_HOME"] = os.devnull
os.environ.pop("KSCOPE_CACHE_SIZE", None)
