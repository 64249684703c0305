# SPDX-License-Identifier: Apache-2.0
# What every script shares: where the tree is, how a step is announced, and how an unchanged input
# is recognised. Sourced, never run.

cd "$(dirname "${BASH_SOURCE[0]}")/.."
export PATH="$PWD/node_modules/.bin:$PATH"

# say TEXT: what the script is for, on stdout. tell TEXT: how a set-up goes, on stderr, so that the JSON of
# `npm run -s demo -- --json` stays alone on stdout.
say() { printf '%s\n' "$*"; }
tell() { printf '%s\n' "$*" >&2; }

# complain CODE MESSAGE: one line on stderr, then exit with CODE (docs/exit-codes.md).
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

# stamp FILE DIGEST: remembers it; written only after success, so a failed step runs again.
stamp() {
  mkdir -p "$(dirname "$1")"
  printf '%s\n' "$2" >"$1"
}

# install_packages PACKAGE...: from Debian, as root; quiet. Fails if one of them cannot be had.
install_packages() {
  local apt=(apt-get -qq -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3)
  export DEBIAN_FRONTEND=noninteractive
  # A foreign source that does not answer must not stop us: the install says what is really missing.
  "${apt[@]}" update </dev/null >/dev/null || tell 'system packages: apt-get update had errors, going on'
  "${apt[@]}" install -y --no-install-recommends "$@" </dev/null >/dev/null
}
