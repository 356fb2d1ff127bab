"""The program under test."""

import os
import pathlib

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PROGRAM = os.environ.get("KSCOPE_BIN", str(ROOT / "build" / "kscope"))
