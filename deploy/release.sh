#!/usr/bin/env bash
# Makes the files of a release.
#
#   deploy/release.sh --base-url URL [FLAG...] VERSION OUT
#
#   --base-url URL        where users will find the files of OUT; the krew manifest names it
#   --repository NAME     where users will find the images; default localhost/mgpu
#   --source-url URL      the address of the project
#   --build FOLDER        an existing build; default: build/release, which is brought up to date
#   --allow-changes       does not refuse sources with changes that are not committed
#
# OUT, a new or empty folder, then has for each image two archives and an SBOM (deploy/images/build.sh), the chart
# mgpu-VERSION.tgz, the plain manifests mgpu-VERSION.yaml, the CLI kubectl-mgpu-VERSION-linux-*.tar.gz with its krew
# manifest mgpu.yaml, and SHA256SUMS. The same commit, Debian packages and arguments give the same files.
# VERSION must be that of CMakeLists.txt and of the chart, and have an entry in deploy/CHANGELOG.md.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
readonly root
base_url=
source_url=
build=
allow_changes=
images=()

fail() {
  printf 'release.sh: %s\n' "$*" >&2
  exit 2
}

while [[ $# -gt 0 && $1 == --* ]]; do
  flag=$1
  shift
  if [[ $flag == --allow-changes ]]; then
    allow_changes=1
    continue
  fi
  [[ $# -ge 1 ]] || fail "$flag needs a value"
  case $flag in
    --base-url) base_url=${1%/} ;;
    --repository) images+=("$flag" "$1") ;;
    --source-url) source_url=$1 && images+=("$flag" "$1") ;;
    --build) build=$(cd "$1" 2>/dev/null && pwd) || fail "--build: \"$1\" is not a folder" ;;
    *) fail "unknown flag \"$flag\"; want --base-url, --repository, --source-url, --build or --allow-changes" ;;
  esac
  shift
done
[[ $# -eq 2 ]] || fail "want the version and a folder after the flags, and not $# arguments"
version=$1
out=$2
[[ $base_url =~ ^https://[A-Za-z0-9.:_/~%-]+$ ]] ||
  fail "--base-url: \"$base_url\" is not an address such as https://example.com/mgpu"
source_version=$(sed -nE 's/^project\(mgpu VERSION ([0-9.]+).*/\1/p' "$root/CMakeLists.txt")
[[ $version == "$source_version" ]] || fail "the version is \"$version\"; CMakeLists.txt has \"$source_version\""
[[ ! -e $out || (-d $out && -z $(ls -A "$out")) ]] || fail "\"$out\" exists, and is not an empty folder"
if [[ -z $allow_changes ]]; then
  changes=$(git -C "$root" status --porcelain --untracked-files=no) || fail "the sources are not a git repository"
  [[ -z $changes ]] || fail "some sources have changes that are not committed, such as ${changes:3:60}"
fi

export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$root" log -1 --format=%ct 2>/dev/null || echo 0)}
[[ -z $build ]] || images+=(--build "$build")
scratch=$(mktemp -d "${TMPDIR:-/tmp}/mgpu-release.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
bash "$root/deploy/images/build.sh" "${images[@]}" --tag "$version" "$scratch"
python3 -B "$root/deploy/images/release.py" --base-url "$base_url" --homepage "$source_url" \
  --build "${build:-$root/build/release}" --epoch "$SOURCE_DATE_EPOCH" "$version" "$scratch" "$out"
(cd "$out" && ls -l)
