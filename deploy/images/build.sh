#!/usr/bin/env bash
# Builds container images of mgpu without a container engine.
#
#   deploy/images/build.sh [FLAG...] OUT [IMAGE...]    builds all images of images.json, or those that are named
#
#   --repository NAME     the images are named NAME/<image>:<tag>; default localhost/mgpu
#   --tag TAG             default: the version of mgpu
#   --source-url URL      the label org.opencontainers.image.source; default: none
#   --build FOLDER        an existing build; default: build/release, which is brought up to date
#
# For each image, OUT then has IMAGE.oci (an OCI image layout), IMAGE.oci.tar (the same as an archive),
# IMAGE.docker.tar (for docker load) and IMAGE.spdx.json (its contents); images.json lists names and digests.
# The same sources, Debian packages and arguments give the same digests. The time of all files is
# SOURCE_DATE_EPOCH, by default that of the commit.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
readonly root
build=
repository=localhost/mgpu
tag=
source_url=

fail() {
  printf 'build.sh: %s\n' "$*" >&2
  exit 2
}

while [[ $# -gt 0 && $1 == --* ]]; do
  [[ $# -ge 2 ]] || fail "$1 needs a value"
  case $1 in
    --repository) repository=$2 ;;
    --tag) tag=$2 ;;
    --source-url) source_url=$2 ;;
    --build) build=$(cd "$2" && pwd) || fail "--build: \"$2\" is not a folder" ;;
    *) fail "unknown flag \"$1\"; want --repository, --tag, --source-url or --build" ;;
  esac
  shift 2
done
[[ $# -ge 1 ]] || fail "the folder for the images is missing"
out=$1
shift

version=$(sed -nE 's/^project\(mgpu VERSION ([0-9.]+).*/\1/p' "$root/CMakeLists.txt")
tag=${tag:-$version}
[[ $tag =~ ^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$ ]] || fail "--tag: \"$tag\" is not a tag of an image"
[[ $repository =~ ^[a-z0-9.:_-]+(/[a-z0-9._-]+)*$ ]] ||
  fail "--repository: \"$repository\" is not the name of a repository, such as registry.example.com/mgpu"

# The commit, and its time. A tree without git has neither.
revision=unknown
epoch=0
if git -C "$root" rev-parse --verify --quiet HEAD >/dev/null; then
  revision=$(git -C "$root" describe --always --abbrev=40 --match='' --dirty)
  epoch=$(git -C "$root" log -1 --format=%ct)
fi
epoch=${SOURCE_DATE_EPOCH:-$epoch}
[[ $epoch =~ ^[0-9]{1,11}$ ]] || fail "SOURCE_DATE_EPOCH: \"$epoch\" is not a time in seconds"

if [[ -z $build ]]; then
  build=$root/build/release
  (cd "$root" && cmake --preset release --log-level=WARNING >/dev/null)
fi

# The CLI is an image as soon as there is a program.
mapfile -t known < <(ninja -C "$build" -t targets all | cut -d : -f 1)
wanted=$(python3 -B "$root/deploy/images/images.py" targets "$@")
images=()
targets=()
while read -r -a words; do
  missing=
  for target in "${words[@]:1}"; do
    [[ " ${known[*]} " == *" $target "* ]] || missing=$target
  done
  if [[ -z $missing ]]; then
    images+=("${words[0]}")
    targets+=("${words[@]:1}")
  elif [[ $# -gt 0 ]]; then
    fail "the build has no program $missing, which the image ${words[0]} needs"
  else
    printf 'build.sh: there is no image %s, because the build has no program %s\n' "${words[0]}" "$missing" >&2
  fi
done <<<"$wanted"
[[ ${#images[@]} -gt 0 ]] || fail "no image can be built"

nice ninja -C "$build" "${targets[@]}" >&2
python3 -B "$root/deploy/images/images.py" build --build "$build" --version "$version" --revision "$revision" \
  --repository "$repository" --tag "$tag" --source-url "$source_url" --epoch "$epoch" "$out" "${images[@]}"
