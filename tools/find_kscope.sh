# For scripts that run in the unpacked bundle or in the source tree after a build; sourced from its
# root. Sets `program` and `python`: KSCOPE_BIN and KSCOPE_PYTHON, else what lies there.
for program in "${KSCOPE_BIN:-}" bin/kscope build-device/kscope build/kscope; do
    [ -n "$program" ] && [ -x "$program" ] && break
done
if [ ! -x "$program" ]; then
    echo "$(basename "$0" .sh): no kscope here: unpack the bundle, or call make build" >&2
    exit 1
fi
python=python3
[ ! -x .venv/bin/python ] || python=.venv/bin/python
python=${KSCOPE_PYTHON:-$python}
export PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
