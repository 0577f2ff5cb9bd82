#!/usr/bin/env bash
# Builds the trial of the device plugin's code on a real GPU as one folder: the programs, their
# libraries, and a C library for containers. The folder can be copied to a machine with a GPU, where
# nothing has to be installed.
#
#   bench/gpu/build.sh [FOLDER]     default build/gpu-trial; an existing folder is replaced
#
# The other machine needs glibc 2.36 or newer and the same architecture. Run there as root:
#
#   FOLDER/run.sh                   or bench/gpu/run.sh FOLDER, which is the same
set -euo pipefail

say() { printf 'build.sh: %s\n' "$*" >&2; }

fail() {
  say "$*"
  exit 1
}

[[ $# -le 1 && ${1-} != -* ]] || fail "expected at most one argument, the folder"
folder=$(realpath -m "${1:-$(dirname "${BASH_SOURCE[0]}")/../../build/gpu-trial}")
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

readonly folder
readonly new=$folder.new
readonly preset=${MGPU_PRESET:-release}
readonly glibc_max=2.36
readonly size_max_mib=60
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1 NINJA_STATUS='[%f/%t %es] '

# Succeeds if the folder is empty, missing, or was made by this script. Other folders are not removed.
is_ours() { [[ ! -e $1 || -x $1/bin/mgpu-gpu-trial || (-d $1 && -z $(ls -A "$1")) ]]; }

build() {
  bash deploy/install.sh
  cmake --preset "$preset" --log-level=ERROR >/dev/null
  nice ninja -C "build/$preset" mgpu-gpu-trial mgpu-cuda-program mgpu-set-limits libmgpu-cuda libmgpu-nvml
}

# Prints the libraries of these programs, except those of the C library. The programs use the C library
# of the machine on which the trial runs.
libraries_of() { # programs
  ldd "$@" | awk '$2 == "=>" && $3 ~ /^\// {print $3}' | sort -u |
    grep -vE '/(libc|libm|libdl|libpthread|librt|libresolv|ld-linux[^/]*)\.so\.[0-9]+$' || true
}

# Copies the C library for containers, with all parts that a driver's libraries need.
copy_c_library() { # image
  local loader libc name
  loader=$(ldd "$new/bin/mgpu-cuda-program" | awk '$1 ~ /ld-linux/ {print $1}')
  libc=$(ldd "$new/bin/mgpu-cuda-program" | awk '$1 == "libc.so.6" {print $3}')
  install -D "$loader" "$1$loader"
  for name in libc.so.6 libm.so.6 libdl.so.2 libpthread.so.0 librt.so.1 libresolv.so.2; do
    install -D "$(dirname "$libc")/$name" "$1/usr$(dirname "${libc#/usr}")/$name"
  done
}

fill() {
  local program
  rm -rf "$new"
  mkdir -p "$new"/{bin,lib,image/usr/bin}
  for program in bench/gpu/mgpu-gpu-trial bench/gpu/mgpu-cuda-program plugin/mgpu-set-limits \
    plugin/libmgpu-cuda.so plugin/libmgpu-nvml.so; do
    install -s "build/$preset/$program" "$new/bin/"
  done
  # runc of Debian. Its library is copied together with those of the trial.
  install "$(command -v runc || echo /usr/sbin/runc)" "$new/bin/"
  libraries_of "$new/bin/mgpu-gpu-trial" "$new/bin/mgpu-set-limits" "$new/bin/runc" | xargs -r install -t "$new/lib"
  install "$new/bin/mgpu-cuda-program" "$new/image/usr/bin/"
  copy_c_library "$new/image"
  install bench/gpu/run.sh "$new/"
}

# Prints the newest version of the C library that a file needs, if any.
glibc_of() {
  objdump -T "$1" 2>/dev/null | grep -oE 'GLIBC_[0-9.]+' | sed 's/GLIBC_//' | sort -V | tail -n 1 ||
    true
}

check() {
  local file version size
  for file in "$new"/bin/* "$new"/lib/*; do
    version=$(glibc_of "$file")
    [[ $(printf '%s\n' "$version" "$glibc_max" | sort -V | tail -n 1) == "$glibc_max" ]] ||
      fail "$file needs glibc $version; expected $glibc_max or older: build on Debian 12"
  done
  size=$(du -sm "$new" | cut -f 1)
  ((size <= size_max_mib)) || fail "the folder has $size MiB; expected at most $size_max_mib"
  say "$folder has $size MiB; copy it to a machine with a GPU and run its run.sh there, as root"
}

is_ours "$folder" ||
  fail "\"$folder\" is not empty and was not made by build.sh; remove it or name another folder"
build
fill
check
rm -rf "$folder"
mv "$new" "$folder"
