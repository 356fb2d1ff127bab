#!/bin/sh
# Tunes the fault programs on a machine with a GPU; docs/tuning.md says what the table means.
#
# Use: tools/tune_gpu.sh [PROGRAM...]  In the unpacked bundle, or the source tree after a build.
# KSCOPE_BIN and KSCOPE_PYTHON name the program and a Python with torch: else .venv's, or python3.
# Table and numbers go to $OUT, else to build/tune-gpu.
set -eu
cd "$(dirname "$0")/.."
. tools/find_kscope.sh
exec "$python" tests/faults/tune_faults.py "$(realpath "$program")" \
    "${OUT:-build/tune-gpu}" --device "${DEVICE:-cuda}" "$@"
