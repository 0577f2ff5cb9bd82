#!/usr/bin/env bash
# Checks that clang-format (format.sh cpp) or gofmt (format.sh go) have nothing to change.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if [[ $1 == cpp ]]; then
  find bench common extender plugin test -name '*.cc' -o -name '*.h' | xargs clang-format --dry-run -Werror
  exit
fi
go=$(bash deploy/install.sh go)
unformatted=$(cd test/cluster && "$("$go" env GOROOT)/bin/gofmt" -l .)
[[ -z $unformatted ]] || { printf 'gofmt would change %s\n' $unformatted && exit 1; }
