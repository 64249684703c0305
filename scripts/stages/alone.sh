# SPDX-License-Identifier: Apache-2.0
# Files that failed beside other lanes run once more, when nothing else runs. If a file passes then, the machine was too
# slow for it, or it has a race: it is listed, and its failures count as passed. Sourced by scripts/test.

# So many files do not fail by chance.
most_alone=6

# note_failed STAGE PROJECT FAILURES [NAME=VALUE...]: what `run` has found, for later.
note_failed() {
  local file
  sed "s/^/$1: /" <<<"$3" >>"$results/failures"
  while read -r file; do
    # One write: lanes append to one file.
    printf '%s\n' "$(printf '%q ' "$file" "$1" "$2" "${@:4}")" >>"$results/again"
  done < <(sed -nE 's/^([^ :]+\.test\.ts)( > |: ).*/\1/p' <<<"$3" | sort -u)
}

# run_alone FILE STAGE PROJECT [NAME=VALUE...]
run_alone() {
  local file=$1 stage=$2 count
  only=("$file")
  say "=== $file of $stage once more, alone"
  if ! vitest_run "$stage-alone" "${@:3}" || [[ $(node scripts/stages/results.mjs "$reports/$stage-alone.json" 0) == '0 '* ]]; then
    say "$file fails alone as well"
    return 0
  fi
  count=$(grep -cF "$stage: $file" "$results/failures" || true)
  grep -F "$stage: $file" "$results/failures" >>"$results/passed-alone"
  grep -vF "$stage: $file" "$results/failures" >"$results/failures.left" || true
  mv "$results/failures.left" "$results/failures"
  awk -v stage="$stage" -v count="$count" '
    $1 == stage && !done { $2 += count; $3 -= count; done = 1 } { print }' "$results/counts" >"$results/counts.new"
  mv "$results/counts.new" "$results/counts"
}

# again: after all lanes.
again() {
  local record
  [[ -s $results/again ]] || return 0
  sort -u -o "$results/again" "$results/again"
  if (($(wc -l <"$results/again") > most_alone)); then
    say "=== more than $most_alone files failed: none runs again"
    return 0
  fi
  while read -r record <&3; do eval "run_alone $record"; done 3<"$results/again"
  only=()
}
