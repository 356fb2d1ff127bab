#!/bin/sh
# Installs the packages of package-lock.json into web/node_modules, when they are not there yet.
#
# Use: web/install.sh [STAMP]    touches STAMP, by which a build knows that it is done.
# No package runs a script of its own while it is installed.
set -eu
touched=${1:-}
case $touched in
"" | /*) ;;
*) touched=$PWD/$touched ;; # of the caller's folder
esac
cd "$(dirname "$0")"

# Two builds at once must not both fill the folder.
if command -v flock >/dev/null 2>&1; then
    exec 9>.npm.lock
    flock 9
fi
stamp="$(node --version) $(sha256sum <package-lock.json)"
if [ "$(cat node_modules/.stamp 2>/dev/null)" != "$stamp" ]; then
    npm ci --ignore-scripts --no-audit --no-fund --loglevel=error >&2 || {
        echo "web/install.sh: npm could not install what the report page is built with;" >&2
        echo "    configure with -Dpage=disabled to build without the page" >&2
        exit 1
    }
    echo "$stamp" >node_modules/.stamp
fi
if [ -n "$touched" ]; then
    touch "$touched"
fi
