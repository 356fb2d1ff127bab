#!/bin/sh
# Compiles the extension in the unpacked bundle, for the Python there, into python/kinetoscope.
#
# Use: tools/device_extension.sh    KSCOPE_PYTHON names the Python; it needs its headers and a cc.
set -eu
cd "$(dirname "$0")/.."
python=${KSCOPE_PYTHON:-python3}

config() { "$python" -c "import sysconfig; print($1)"; }
include=$(config 'sysconfig.get_path("include")')
suffix=$(config 'sysconfig.get_config_var("EXT_SUFFIX")')

# $1 is a module, the rest what it is linked with.
compile() {
    name=$1
    shift
    # shellcheck disable=SC2046 # the list is of words
    cc -shared -fPIC -O2 -std=gnu17 -D_GNU_SOURCE -fvisibility=hidden -pthread \
        -I. -Iinclude -Ipython/ext -isystem "$include" -o "python/kinetoscope/$name$suffix" \
        $(cat "lib/$name.sources") "$@" -lm -ldl -Wl,-rpath,"\$ORIGIN/../../lib"
}

compile _kscope lib/libkssampler.o lib/libksmonitor.o lib/libkscope_capture.so &
compile _kscope_engine lib/kscope.o lib/libz.so.1 lib/libzstd.so.1 lib/libxxhash.so.0 \
    lib/libsqlite3.so.0
wait $!
