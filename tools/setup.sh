#!/bin/sh
# Makes a machine ready: Debian packages, then a Python environment with pinned packages.
#
# Use: tools/setup.sh [demo|test|ci|bench|peers]    Each level needs what the one before it needs;
# bench and peers need what demo needs and an environment of their own each.
# Written for Debian 12 and 13. As root it installs what is missing; otherwise it prints the command
# and stops. Nothing is asked of the network when all is there, so that a second run costs
# milliseconds.
set -eu
cd "$(dirname "$0")/.."

level=${1:-demo}
packages="gcc libc6-dev meson ninja-build pkgconf zlib1g-dev libzstd-dev libxxhash-dev"
packages="$packages libsqlite3-dev libisal-dev libmicrohttpd-dev"
packages="$packages libpython3-dev" # headers for Debian's Python; others bring their own
shells="groff-base zsh fish" # what checks the man page and the completions
requirements=requirements.txt
venv=.venv
pip_options=
case $level in
demo) ;;
test) packages="$packages git libcmocka-dev valgrind $shells" ;;
ci) packages="$packages git libcmocka-dev valgrind $shells clang" ;;
bench)
    packages="$packages g++ libsimdjson-dev valgrind"
    requirements=requirements-bench.txt
    venv=.venv-bench
    pip_options=--no-deps
    ;;
peers)
    requirements=requirements-bench-python.txt
    venv=.venv-peers
    ;;
*)
    echo "usage: tools/setup.sh [demo|test|ci|bench|peers]" >&2
    exit 2
    ;;
esac

# Node builds the report page, Chromium tests it. Other sources than Debian's are as good; without
# Node the program is built without the page, so that only root's machine gets it unasked.
if [ "$(id -u)" -eq 0 ]; then
    case $level in
    demo | test | ci)
        command -v node >/dev/null 2>&1 && command -v npm >/dev/null 2>&1 ||
            packages="$packages nodejs npm"
        ;;
    esac
    case $level in
    test | ci) command -v chromium >/dev/null 2>&1 || packages="$packages chromium" ;;
    esac
fi

say() { echo "setup: $*" >&2; }

# Prints those of its arguments that dpkg does not know as installed.
missing_of() {
    format='${db:Status-Status}=${binary:Package} '
    # The query fails when it does not know one of them, which is no fault here.
    installed=" $(dpkg-query -W -f "$format" "$@" 2>/dev/null || true) "
    for package in "$@"; do
        case $installed in
        *" installed=$package "* | *" installed=$package:"*) ;;
        *) printf '%s ' "$package" ;;
        esac
    done
}

install_packages() {
    missing=$(missing_of "$@")
    [ -n "$missing" ] || return 0
    if [ "$(id -u)" -ne 0 ]; then
        say "Debian packages are missing; install them as root, then start again:"
        echo "    apt-get update && apt-get install --no-install-recommends -y $missing" >&2
        exit 1
    fi
    say "installing Debian packages: $missing"
    export DEBIAN_FRONTEND=noninteractive
    lock="-o DPkg::Lock::Timeout=600"
    # A source of packages that we do not need may be out of reach; the install below decides.
    # shellcheck disable=SC2086
    apt-get $lock update -qq || true
    # shellcheck disable=SC2086
    apt-get $lock install --no-install-recommends -y -qq $missing >/dev/null
}

install_debian_side() {
    if ! command -v dpkg-query >/dev/null 2>&1; then
        say "this is not Debian: please see to these packages, or what they are called here:"
        echo "    $packages" >&2
        return 0
    fi
    # shellcheck disable=SC2086
    install_packages $packages
    if [ "$level" = ci ]; then
        # The sanitizer and fuzzer runtime is packaged by clang's own version.
        version=$(clang -dumpversion)
        install_packages "libclang-rt-${version%%.*}-dev"
    fi
}

# Prints a Python of at least 3.11, preferring 3.11 itself: the pins are made with that one.
find_python() {
    for want in '== (3, 11)' '>= (3, 11)'; do
        for candidate in ${PYTHON:-} python3.11 python3 /usr/bin/python3; do
            ask="import sys; sys.exit(not sys.version_info[:2] $want)"
            if "$candidate" -c "$ask" 2>/dev/null; then
                echo "$candidate"
                return 0
            fi
        done
    done
    say "no Python 3.11 or newer was found as \$PYTHON, python3.11 or python3"
    return 1
}

install_python_side() {
    # Scripts in the environment hold its path, so a tree that was moved needs a new one.
    stamp="$PWD $(sha256sum <"$requirements")"
    if [ -x $venv/bin/python ] && [ "$(cat $venv/stamp 2>/dev/null)" = "$stamp" ]; then
        return 0
    fi
    python=$(find_python)
    if [ -L $venv ]; then
        say "$venv is a link, and would be emptied where it leads; remove it and run again"
        exit 1
    fi
    if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
        # Only Debian's own Python comes without these two.
        minor=$("$python" -c 'import sys; print(sys.version_info[1])')
        install_packages "python3.$minor-venv"
    fi
    say "making $venv from $requirements, which can take some minutes"
    "$python" -m venv --clear $venv
    # shellcheck disable=SC2086
    $venv/bin/python -m pip install --quiet --quiet --disable-pip-version-check $pip_options \
        -r "$requirements"
    echo "$stamp" >$venv/stamp
}

# The packages that the page is built, laid out and tested with; web/install.sh does it once.
install_page_side() {
    [ -f web/install.sh ] || return 0
    if ! node -e 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)' 2>/dev/null; then
        say "no Node 20 or newer was found: the report page is left out"
        return 0
    fi
    if ! command -v npm >/dev/null 2>&1; then # Debian has it in a package of its own
        say "Node is here without npm: the report page is left out"
        return 0
    fi
    web/install.sh
}

# Two makes at once in one tree must not both fill the environment.
if command -v flock >/dev/null 2>&1; then
    exec 9>.venv.lock
    flock 9
fi
install_debian_side
install_python_side
case $level in
test | ci) install_page_side ;;
esac
