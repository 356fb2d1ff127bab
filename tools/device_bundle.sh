#!/bin/sh
# Packs what a bare machine with a GPU needs to test kscope: build/device-bundle.tar.gz.
#
# Use: tools/device_bundle.sh          pack (make device-bundle)
#      tools/device_bundle.sh --test   run the test here, packing nothing (make device-test)
#
# kscope is linked statically but for glibc, which every machine has: the newest version of it that
# the program asks for is printed. The other libraries come as archives by way of pkg-config files
# of our own, since Meson's prefer_static would take libm.a as well, and glibc does not mix.
set -eu
cd "$(dirname "$0")/.."

build=build-device
bundle=build/device-bundle.tar.gz
bytes_max=$((20 * 1024 * 1024))

say() { echo "device_bundle: $*"; }
fail() {
    echo "device_bundle: $*" >&2
    exit 1
}

# $1 is a pkg-config name, $2 its archive.
use_archive() {
    archive=$(cc -print-file-name="$2")
    [ -f "$archive" ] || fail "no $2 here: the development package of $1 holds it"
    cat >"$build-pkgconfig/$1.pc" <<PC
Name: $1
Description: $1 as an archive
Version: $(pkg-config --modversion "$1")
Libs: $(readlink -f "$archive")
PC
}

build_program() {
    tools/setup.sh demo
    if [ ! -f "$build/build.ninja" ]; then
        mkdir -p "$build-pkgconfig"
        use_archive zlib libz.a
        use_archive libzstd libzstd.a
        use_archive libxxhash libxxhash.a
        use_archive sqlite3 libsqlite3.a
        PKG_CONFIG_PATH=$PWD/$build-pkgconfig meson setup "$build" -Dbuildtype=release \
            -Disal=disabled -Dview=disabled >/dev/null ||
            fail "Meson cannot configure: the end of $build/meson-logs/meson-log.txt says why"
    fi
    ninja -C "$build" --quiet kscope core/libkscope.a capture/libkscope_capture.so \
        capture/sampler/libkssampler.a capture/monitor/libksmonitor.a
}

# Fails when a library is needed that a bare machine may lack.
check_program() {
    needed=$(objdump -p "$build/kscope" | awk '$1 == "NEEDED" { print $2 }')
    for library in $needed; do
        case $library in
        libc.so.6 | libm.so.6 | ld-linux*) ;;
        *) fail "kscope needs $library" ;;
        esac
    done
    newest=$(objdump -T "$build/kscope" | sed -n 's/.*(GLIBC_\([0-9.]*\)).*/\1/p' |
        sort -V | tail -n 1)
    say "kscope needs $(echo "$needed" | paste -sd ' ' -) and glibc $newest or newer"
}

# $1 is the name of a module; its sources, as the build knows them.
list_sources() {
    ninja -C "$build" -t commands extension | tr ' ' '\n' |
        sed -n "s|^python/ext/$1\..*\.p/\(.*\)\.o$|python/ext/\1|p" |
        sort -u >"$stage/lib/$1.sources"
    [ -s "$stage/lib/$1.sources" ] || fail "the build does not know how to make $1"
}

pack_extension() {
    mkdir "$stage/lib"
    objects=$stage/lib/kscope.o
    ld -r --whole-archive -o "$objects" "$build/core/libkscope.a"
    strip --strip-debug "$objects"
    for name in sampler/libkssampler.a monitor/libksmonitor.a; do
        ld -r --whole-archive -o "$stage/lib/$(basename "$name" .a).o" "$build/capture/$name"
    done
    cp "$build/capture/libkscope_capture.so" "$stage/lib"
    for name in z zstd xxhash sqlite3; do
        file=$(readlink -f "$(cc -print-file-name="lib$name.so")")
        soname=$(objdump -p "$file" | awk '$1 == "SONAME" { print $2 }')
        cp "$file" "$stage/lib/$soname"
    done
    list_sources _kscope
    list_sources _kscope_engine
    find include wire capture -name '*.h' -exec cp --parents -t "$stage" {} +
}

pack() {
    stage=$(mktemp -d)
    trap 'rm -rf "$stage"' EXIT
    mkdir -p "$stage/bin" "$stage/tools" "$stage/tests" "$stage/docs" build
    strip -o "$stage/bin/kscope" "$build/kscope"
    cp -R python examples LICENSE "$stage"
    cp -R tests/data tests/device tests/faults "$stage/tests"
    cp -R tests/torch "$stage/tests"
    cp tools/find_kscope.sh tools/device_test.sh tools/device_extension.sh tools/faults_gpu.sh \
        tools/tune_gpu.sh "$stage/tools"
    pack_extension
    cp docs/device.md docs/examples.md docs/faults.md "$stage/docs"
    find "$stage" -name __pycache__ -prune -exec rm -rf {} +
    # The same tree gives the same bytes.
    tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -C "$stage" -cf - . |
        gzip -9n >"$bundle.part"
    mv "$bundle.part" "$bundle"
    bytes=$(stat -c %s "$bundle")
    [ "$bytes" -le "$bytes_max" ] || fail "$bundle has $bytes bytes, more than $bytes_max"
    say "$bundle: $bytes bytes; unpack it there and run tools/device_test.sh"
}

case ${1:-} in
'')
    build_program
    check_program
    pack
    ;;
--test)
    exec tools/device_test.sh
    ;;
*)
    echo "usage: tools/device_bundle.sh [--test]" >&2
    exit 2
    ;;
esac
