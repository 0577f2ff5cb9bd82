#!/usr/bin/env bash
# Builds the trial of the node code on a real GPU, as one folder that can be carried to a machine with
# one: the programs, the libraries that they need, and the C library for containers. Nothing has to be
# installed there.
#
#   bench/gpu/build.sh [FOLDER]     build/gpu-trial when not given; what is in it is replaced
#
# The machine needs glibc 2.36 or newer and this one's architecture. Then, there, as root:
#
#   bench/gpu/run.sh FOLDER         or FOLDER/run.sh, which is the same
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

readonly folder=${1:-build/gpu-trial}
readonly preset=${MGPU_PRESET:-release}
readonly glibc_max=2.36
readonly size_max_mib=60
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1 NINJA_STATUS='[%f/%t %es] '

say() { printf 'build.sh: %s\n' "$*" >&2; }

fail() {
  say "$*"
  exit 1
}

build() {
  bash deploy/install.sh
  cmake --preset "$preset" --log-level=ERROR >/dev/null
  nice ninja -C "build/$preset" mgpu-gpu-trial mgpu-cuda-program
}

# What the loader would load for these programs, without what belongs to the C library: that must be
# the one of the machine where the trial runs.
libraries_of() { # programs
  ldd "$@" | awk '$2 == "=>" && $3 ~ /^\// {print $3}' | sort -u |
    grep -vE '/(libc|libm|libdl|libpthread|librt|libresolv|ld-linux[^/]*)\.so\.[0-9]+$' || true
}

# The C library that a container brings: all its parts that a driver's libraries ask for.
copy_c_library() { # image
  local loader libc name
  loader=$(ldd "$folder/bin/mgpu-cuda-program" | awk '$1 ~ /ld-linux/ {print $1}')
  libc=$(ldd "$folder/bin/mgpu-cuda-program" | awk '$1 == "libc.so.6" {print $3}')
  install -D "$loader" "$1$loader"
  for name in libc.so.6 libm.so.6 libdl.so.2 libpthread.so.0 librt.so.1; do
    install -D "$(dirname "$libc")/$name" "$1/usr$(dirname "${libc#/usr}")/$name"
  done
}

fill() {
  local program
  rm -rf "$folder"
  mkdir -p "$folder"/{bin,lib,image/usr/bin}
  for program in mgpu-gpu-trial mgpu-cuda-program; do
    install -s "build/$preset/bench/gpu/$program" "$folder/bin/"
  done
  # The runtime of Debian's package; its library comes along.
  install "$(command -v runc || echo /usr/sbin/runc)" "$folder/bin/"
  libraries_of "$folder/bin/mgpu-gpu-trial" "$folder/bin/runc" | xargs -r install -t "$folder/lib"
  install "$folder/bin/mgpu-cuda-program" "$folder/image/usr/bin/"
  copy_c_library "$folder/image"
  install bench/gpu/run.sh "$folder/"
}

# The newest version of the C library that a file asks for.
glibc_of() { objdump -T "$1" 2>/dev/null | grep -oE 'GLIBC_[0-9.]+' | sed 's/GLIBC_//' | sort -V | tail -n 1; }

check_folder() {
  local file version size
  for file in "$folder"/bin/* "$folder"/lib/*; do
    version=$(glibc_of "$file")
    [[ $(printf '%s\n' "$version" "$glibc_max" | sort -V | tail -n 1) == "$glibc_max" ]] ||
      fail "$file needs glibc $version; want $glibc_max or older: build on Debian 12"
  done
  size=$(du -sm "$folder" | cut -f 1)
  ((size <= size_max_mib)) || fail "$folder has $size MiB; want at most $size_max_mib"
  say "$folder has $size MiB; run bench/gpu/run.sh $folder on a machine with a GPU"
}

build
fill
check_folder
