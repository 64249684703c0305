# SPDX-License-Identifier: Apache-2.0
# Programs in Go that only tests need, built once for each state of their module. Sourced after lib.sh.

# cache_of NAME FILE...: where the programs go that these files make, below the user's cache.
cache_of() {
  local sum
  sum=$(cat "${@:2}" | sha256sum)
  echo "${XDG_CACHE_HOME:-$HOME/.cache}/fairlead/$1/${sum:0:16}"
}

# version_flags MODULE: the linker's flags by which Kubernetes' programs know their version, which is that of the module's go.mod.
version_flags() {
  local version minor package=k8s.io/component-base/version
  version=$(sed -n 's|^\t*k8s.io/kubernetes \(v[0-9.]*\).*|\1|p' "$1/go.mod")
  minor=${version#v1.}
  echo "-X $package.gitVersion=$version -X $package.gitMajor=1 -X $package.gitMinor=${minor%%.*}"
}

need_go() {
  command -v go >/dev/null || complain 5 'go is missing: install Go 1.21 or newer (it fetches the release it needs)'
}

# build_go MODULE INTO LINKER_FLAGS [FLAG...] PACKAGE: PACKAGE is `tool` for every program that the module lists under that name.
build_go() {
  GOFLAGS='' GOWORK=off CGO_ENABLED=${CGO_ENABLED-0} nice -n 15 \
    go -C "$1" build -mod=readonly -trimpath -buildvcs=false -ldflags="-s -w $3" -o "$2" "${@:4}" </dev/null >&2
}

# build_once WHAT FOLDER COMMAND...: fills FOLDER by COMMAND with a new folder as its last argument, unless FOLDER is there.
build_once() (
  local what=$1 folder=$2 cache=${2%/*} fresh
  if [[ -d $folder ]]; then return; fi
  need_go
  mkdir -p "$cache"
  exec 9>"$cache/lock"
  if ! flock --nonblock 9; then
    tell "$what: waiting for another build"
    flock 9
  fi
  if [[ -d $folder ]]; then return; fi
  SECONDS=0
  tell "$what: building with $(go env GOVERSION) into $folder (once)"
  rm -rf "$cache"/fresh.* # Left by killed builds: no other build runs, because this one holds the lock.
  fresh=$(mktemp -d "$cache/fresh.XXXXXX")
  trap 'rm -rf "$fresh"' EXIT
  "${@:3}" "$fresh"
  chmod 755 "$fresh"
  mv --no-target-directory "$fresh" "$folder" # Atomic: the folder is never visible incomplete.
  tell "$what: built in $SECONDS s, $(du -sh "$folder" | cut -f1)"
)
