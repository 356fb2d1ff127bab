#!/bin/sh
# Tests kscope on a machine with a GPU; docs/device.md says what each part proves.
#
# Use: tools/device_test.sh    In the unpacked bundle, or in the source tree after a build.
# KSCOPE_BIN and KSCOPE_PYTHON name the program and a Python with torch: else .venv's, or python3.
# Results and recorded traces go to $OUT, else to build/device-test.
set -eu
cd "$(dirname "$0")/.."
. tools/find_kscope.sh
if command -v nvidia-smi >/dev/null; then
    nvidia-smi -L
else
    echo "device_test: no nvidia-smi; the parts that need a GPU are left out"
fi
exec "$python" tests/device/run_parts.py "$program" "${OUT:-build/device-test}"
