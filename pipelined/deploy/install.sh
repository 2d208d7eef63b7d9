# shellcheck shell=sh
# install.sh: sourced by scripts; install_packages GROUP… installs what is missing of these groups of debian-packages.txt, asking
# nothing. Needs `top`, the folder of the checkout. Does nothing at all when nothing is missing.

installed() {
    dpkg-query -W -f '${Status}\n' "$1" 2>/dev/null | grep -q '^install ok installed'
}

# Prints the first name of each line of which no alternative is installed.
missing_packages() {
    for group in "$@"; do
        # shellcheck disable=SC2154 # top is the caller's
        sed -n "s/^$group //p" "$top/pipelined/deploy/debian-packages.txt"
    done | while read -r names; do
        found=
        for name in $(echo "$names" | tr '|' ' '); do
            if installed "$name"; then
                found=1
                break
            fi
        done
        [ -n "$found" ] || echo "${names%%|*}"
    done | sort -u
}

install_packages() {
    if ! command -v dpkg-query >/dev/null; then
        echo "this is not Debian: make sure that what pipelined/deploy/debian-packages.txt names is there ($*)" >&2
        return 0
    fi
    wanted=$(missing_packages "$@" | tr '\n' ' ')
    [ -n "$wanted" ] || return 0
    as_root=
    if [ "$(id -u)" -ne 0 ]; then
        if ! command -v sudo >/dev/null || ! sudo -n true 2>/dev/null; then
            echo "packages are missing and this user may not install them without a password; run: sudo apt-get install $wanted" >&2
            return 1
        fi
        as_root="sudo -n"
    fi
    echo "installing: $wanted"
    install_log=$(mktemp)
    # shellcheck disable=SC2086 # $as_root and $wanted are lists
    if $as_root apt-get update -qq >"$install_log" 2>&1 &&
        $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $wanted \
            >>"$install_log" 2>&1 </dev/null; then
        rm -f "$install_log"
        return 0
    fi
    tail -n 20 "$install_log" >&2
    rm -f "$install_log"
    echo "apt-get could not install: $wanted" >&2
    return 1
}
