#!/bin/sh
# Puts the built page into an archive of the sources: who builds from it needs no Node.
#
# Called by `meson dist`.
set -eu
ninja -C "$MESON_BUILD_ROOT" --quiet web/page.js
mkdir -p "$MESON_DIST_ROOT/web/built"
cp "$MESON_BUILD_ROOT/web/page.js" "$MESON_BUILD_ROOT/web/page.css" "$MESON_DIST_ROOT/web/built"
