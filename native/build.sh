#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the addon against the system's libbpf.so.1: `build.sh [--asan] [FOLDER]` makes FOLDER/fairlead.node, by default
# build/fairlead.node beside this file, or with sanitizers fairlead-asan.node. Calls the compiler directly: no node-gyp, no
# network. CXX, CXXFLAGS and LDLIBS may be set; LDLIBS replaces -lbpf, for another libbpf.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

# complain MESSAGE
complain() {
  printf 'error: %s\n' "$1" >&2
  exit 1
}

# folder_of PACKAGE: where Node finds it, from here.
folder_of() {
  node -p "path.dirname(require.resolve('$1/package.json', { paths: ['$here'] }))" 2>/dev/null ||
    complain "the package $1 is missing; run: npm ci"
}

name=fairlead
mode=(-O2 -DNDEBUG)
if [[ ${1-} == --asan ]]; then
  name=fairlead-asan
  mode=(-O1 -g -fsanitize=address,undefined -fno-sanitize=vptr -fno-omit-frame-pointer)
  shift
fi
(($# < 2)) || complain 'usage: build.sh [--asan] [FOLDER]'
out=${1:-$here/build}

compiler=${CXX:-g++}
node_api=$(folder_of node-api-headers)
cplusplus_api=$(folder_of node-addon-api)
command -v "$compiler" >/dev/null || complain "$compiler is missing; on Debian: apt-get install g++"
[[ -e /usr/include/bpf/libbpf.h || -n ${CXXFLAGS-} ]] ||
  complain 'bpf/libbpf.h is missing; on Debian: apt-get install libbpf-dev'

flags=(
  -std=c++20 -Wall -Wextra -Werror "${mode[@]}"
  -fPIC -fvisibility=hidden -fno-exceptions -pthread
  -DNAPI_VERSION=9 -DNAPI_DISABLE_CPP_EXCEPTIONS -DNODE_ADDON_API_DISABLE_DEPRECATED
  -DNODE_API_SWALLOW_UNTHROWABLE_EXCEPTIONS # a worker that is terminated in the middle of a call
  "-I$here" -isystem "$node_api/include" -isystem "$cplusplus_api"
)
read -r -a more_flags <<<"${CXXFLAGS-}"
read -r -a libraries <<<"${LDLIBS:--lbpf}"
flags+=("${more_flags[@]}")

# A separate folder, so that two concurrent builds do not mix their objects.
mkdir -p "$out"
objects=$(mktemp -d -p "$out")
trap 'rm -rf "$objects"' EXIT

# sources: with a NUL after each. Not what else may be below this folder: packages that npm has put there.
sources() { (cd "$here" && find . -name node_modules -prune -o -name '*.cc' -print0); }

# Compiles each source into $objects, named by its path; fails if one fails.
sources | xargs -0 -P "$(nproc)" -I SOURCE \
  bash -c 'name=${0#./}; name=${name//\//-}; "$@" -c "'"$here"'/$0" -o "'"$objects"'/${name%.cc}.o"' SOURCE \
  "$compiler" "${flags[@]}"
"$compiler" -shared "${flags[@]}" "$objects"/*.o "${libraries[@]}" -o "$objects/$name.node"
# Renamed atomically: a process that has mapped the old file keeps it.
mv "$objects/$name.node" "$out/$name.node"
