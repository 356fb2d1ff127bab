#!/bin/sh
# Runs the fault programs on a machine with a GPU; docs/faults.md says what the table means.
#
# Use: tools/faults_gpu.sh [PROGRAM...]  In the unpacked bundle, or the source tree after a build.
# KSCOPE_BIN and KSCOPE_PYTHON name the program and a Python with torch: else .venv's, or python3.
# The table goes to docs/faults.md, and all numbers to $OUT, else to build/faults-gpu.
set -eu
cd "$(dirname "$0")/.."
. tools/find_kscope.sh
exec "$python" tests/faults/run_faults.py "$program" \
    "${OUT:-build/faults-gpu}" --device cuda --docs docs/faults.md "$@"
