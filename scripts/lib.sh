# SPDX-License-Identifier: Apache-2.0
# Functions that all scripts share: the root of the tree, progress messages, and detection of unchanged
# inputs. Sourced, never run.

cd "$(dirname "${BASH_SOURCE[0]}")/.."
export PATH="$PWD/node_modules/.bin:$PATH"
# A file or a pipe gets no colour codes, whatever the environment asks for.
if [[ ! -t 1 ]]; then
  export NO_COLOR=1
  unset FORCE_COLOR
fi

# say TEXT: results, on stdout. tell TEXT: progress, on stderr, so that `npm run -s demo -- --json` prints
# only JSON on stdout.
say() { printf '%s\n' "$*"; }
tell() { printf '%s\n' "$*" >&2; }

# complain CODE MESSAGE: one line on stderr, then exit with CODE (docs/errors.md).
complain() {
  printf 'error: %s\n' "$2" >&2
  exit "$1"
}

# digest PATH...: one hash over the names and contents of every file below the paths; absent paths
# count as empty. Contents, not times: a fresh clone and a switched branch are judged alike.
digest() {
  local path present=()
  for path in "$@"; do
    if [[ -e $path ]]; then present+=("$path"); fi
  done
  if ((${#present[@]} == 0)); then
    printf 'none\n'
    return
  fi
  find "${present[@]}" -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum | sha256sum
}

# is_stamped FILE DIGEST: true if FILE says that DIGEST is what was last built.
is_stamped() { [[ -f $1 && $(<"$1") == "$2" ]]; }

# stamp FILE DIGEST: records it; called only after success, so that a failed step runs again.
stamp() {
  mkdir -p "$(dirname "$1")"
  printf '%s\n' "$2" >"$1"
}

# install_packages PACKAGE...: from Debian, as root; quiet, one at a time (apt-get waits for the lock of dpkg, but not for
# that of its lists). Fails if one of them is not available.
install_packages() (
  exec {lock}</var/lib/apt/lists
  flock "$lock"
  local apt=(apt-get -qq -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3)
  export DEBIAN_FRONTEND=noninteractive
  # An unreachable third-party source is not fatal: the install reports what is missing.
  "${apt[@]}" update </dev/null >/dev/null || tell 'system packages: apt-get update had errors, continuing'
  "${apt[@]}" install -y --no-install-recommends "$@" </dev/null >/dev/null
)
