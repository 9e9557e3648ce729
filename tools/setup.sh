# Sourced by tools/test, tools/demo and .ci/run: finds or installs what the build needs, and builds build/.
# Sets throng_root. THRONG_MESON_ARGS holds further options for `meson setup` (.ci/run uses it for -Dwerror=true).

throng_root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)

throng_has_header() { printf '#include <%s>\n' "$1" | "${CXX:-g++}" -E -x c++ - >/dev/null 2>&1; }
throng_has_module() { pkg-config --exists "$1" 2>/dev/null; }
throng_has_program() { command -v "$1" >/dev/null 2>&1; }

# Prints the Debian packages of what is missing. It asks for the things, not for packages: another system's names, or
# programs that were not installed from packages, are as good.
throng_missing() {
    throng_has_program "${CXX:-g++}" || echo g++
    throng_has_program meson || echo meson
    throng_has_program ninja || echo ninja-build
    throng_has_program pkg-config || echo pkg-config
    throng_has_program python3 || echo python3
    throng_has_program zstd || echo zstd
    throng_has_module 'tbb >= 2021.5' || echo libtbb-dev
    throng_has_module libzstd || echo libzstd-dev
    throng_has_module libxxhash || echo libxxhash-dev
    throng_has_header mimalloc.h || echo libmimalloc-dev
    throng_has_header doctest/doctest.h || echo doctest-dev
}

# Prints the words that run apt-get with rights, or fails.
throng_apt_get() {
    throng_has_program apt-get || return 1
    if [ "$(id -u)" = 0 ]; then
        echo env DEBIAN_FRONTEND=noninteractive apt-get
    else
        throng_has_program sudo && sudo -n true >/dev/null 2>&1 </dev/null || return 1
        echo sudo -n env DEBIAN_FRONTEND=noninteractive apt-get
    fi
}

# Makes what the given function finds missing present, or prints one line with the package names and exits 2.
throng_require() {
    local missing apt log why
    missing=$("$1" | tr '\n' ' ')
    throng_installed=no
    [ -n "$missing" ] || return 0
    if ! apt=$(throng_apt_get); then
        echo "missing packages (installing them needs apt-get and root, or sudo without a password): ${missing% }" >&2
        exit 2
    fi
    echo "installing: ${missing% }"
    log=$(mktemp)
    # A bare machine has no package lists, an old one stale ones: those are fetched only when the first try fails.
    # shellcheck disable=SC2086 # words
    {
        $apt install -y --no-install-recommends $missing ||
            { $apt update && $apt install -y --no-install-recommends $missing; }
    } >"$log" 2>&1 </dev/null
    why=$(grep '^E:' "$log" | tail -n 1)
    rm -f "$log"
    missing=$("$1" | tr '\n' ' ')
    if [ -n "$missing" ]; then
        echo "missing packages (apt-get could not install them${why:+; $why}): ${missing% }" >&2
        exit 2
    fi
    throng_installed=yes
}

# ninja, as a line a tenth when nobody watches a terminal; all of its output when it fails.
throng_ninja() {
    local build=$1 log=$1/build.log status
    shift
    if [ -t 1 ]; then
        ninja -C "$build" "$@" </dev/null
        return
    fi
    NINJA_STATUS='[%f/%t] ' ninja -C "$build" "$@" </dev/null 2>&1 | tee "$log" | awk -F '[][/]' '
        /^\[[0-9]+\/[0-9]+\]/ { tenth = int($2 * 10 / $3)
                                if (tenth > last) { printf "build: %d %% (%d of %d)\n", tenth * 10, $2, $3; fflush(); last = tenth } }'
    status=${PIPESTATUS[0]}
    if [ "$status" != 0 ]; then
        sed -n '/^FAILED:/,$p' "$log" | grep . || tail -n 50 "$log"
    fi
    return "$status"
}

# Configures a build folder (when it is not yet): throng_configure FOLDER [MESON OPTION ...]
throng_configure() {
    local build=$1 log
    shift
    if [ -d "$build/meson-private" ] && [ "${throng_installed:-no}" = yes ]; then
        rm -rf -- "$build" # it remembers what was missing
    fi
    mkdir -p "$build"
    log=$build/configure.log
    if [ ! -f "$build/build.ninja" ]; then
        echo "configuring $(basename "$build")/"
        if ! meson setup "$build" "$throng_root" "$@" >"$log" 2>&1 </dev/null; then
            cat "$log" >&2
            return 1
        fi
    elif [ $# -gt 0 ] && ! meson configure "$build" "$@" >"$log" 2>&1 </dev/null; then
        cat "$log" >&2
        return 1
    fi
}

# What tools/test and tools/demo share: packages, then the release build in build/.
throng_prepare() {
    throng_require throng_missing
    local version
    version=$(meson --version 2>/dev/null)
    if [ "$(printf '%s\n1.0.0\n' "$version" | sort -V | head -n 1)" != 1.0.0 ]; then
        echo "meson 1.0.0 or newer is needed, this one is ${version:-unknown} (pip install meson)" >&2
        exit 2
    fi
    # shellcheck disable=SC2086 # several options
    throng_configure "$throng_root/build" --buildtype=release ${THRONG_MESON_ARGS:-} && throng_ninja "$throng_root/build"
}
