# SPDX-License-Identifier: Apache-2.0
# The stages of the tests: what each needs, and how it runs. Sourced by scripts/test, which defines `add` and `results`.

# has_capability BIT: true if this process holds it (numbers of linux/capability.h).
has_capability() {
  local effective
  effective=$(sed -n 's/^CapEff:\t//p' /proc/self/status)
  (((16#$effective >> $1) & 1))
}

# need_kernel: prints why BPF tests cannot run here; silent if they can.
need_kernel() {
  if ((EUID != 0)); then
    echo 'needs root'
  elif ! has_capability 21 || ! has_capability 12; then
    echo 'needs CAP_SYS_ADMIN and CAP_NET_ADMIN'
  elif [[ ! -r /sys/kernel/btf/vmlinux ]]; then
    echo 'needs kernel type information (/sys/kernel/btf/vmlinux)'
  fi
}

# need_netns: as need_kernel, for tests that build networks and attach to cgroups.
need_netns() {
  local reason
  reason=$(need_kernel)
  if [[ -n $reason ]]; then
    echo "$reason"
  elif ! grep -q ' cgroup2 ' /proc/mounts; then
    echo 'needs a mounted cgroup v2 hierarchy'
  elif ! unshare --net true 2>/dev/null; then
    echo 'needs network namespaces'
  fi
}

# skip STAGE FOLDER REASON: reports it and counts every test file of the folder as skipped.
skip() {
  local files
  files=$({ find "$2" -name '*.test.ts' 2>/dev/null || true; } | wc -l)
  say "=== $1: SKIPPED ($files files): $3"
  add "$1" 0 0 "$files" "skipped: $3"
}

# Which files of a project run, by parts of their names; none: all.
only=()

# workers PROJECT: how many of its files run beside each other. Those of these stages wait for most of their time: five files of netns
# take 82 s one after the other, 32 s in three workers, 18 s of CPU time in both. A control plane takes a gigabyte.
workers() {
  case $1 in
    netns | nodes | packets | networks) echo "${FAIRLEAD_WORKERS:-3}" ;;
    cluster) echo "${FAIRLEAD_WORKERS:-2}" ;;
    *) echo 1 ;;
  esac
}

# vitest_run REPORT PROJECT [NAME=VALUE...]: the files of `only`, with extra environment. Each of the ten thousand Nodes of a whole
# run would read the certificates of NODE_EXTRA_CA_CERTS first, for 0.04 s of CPU time; what makes images downloads with them.
vitest_run() {
  local report=$reports/$1.json unneeded=(-u NODE_EXTRA_CA_CERTS)
  rm -f "$report" "$report.unhandled"
  case $2 in image | e2e) unneeded=() ;; esac
  env "${unneeded[@]}" FAIRLEAD_WORKERS="$(workers "$2")" FAIRLEAD_UNHANDLED="$report.unhandled" "${@:3}" vitest run --project "$2" "${only[@]}" --passWithNoTests \
    --reporter=default --reporter=./scripts/stages/unhandled.mjs --reporter=json --outputFile.json="$report" </dev/null
}

# run STAGE PROJECT [NAME=VALUE...]: one vitest project.
run() {
  local code=0 counts lines seconds=$SECONDS
  say "=== $1"
  vitest_run "$@" || code=$?
  mapfile -t lines < <(node scripts/stages/results.mjs "$reports/$1.json" "$code")
  read -ra counts <<<"${lines[0]}"
  if ((${#lines[@]} > 1)); then note_failed "$1" "$2" "$(printf '%s\n' "${lines[@]:1}")" "${@:3}"; fi
  add "$1" "${counts[@]}" "$((SECONDS - seconds)) s"
}

# run_if NEED STAGE [NAME=VALUE...]: unless the function NEED has a reason why not.
run_if() {
  local reason
  reason=$("$1")
  if [[ -n $reason ]]; then skip "$2" "test/integration/$2" "$reason"; else run "$2" "$2" "${@:3}"; fi
}

stage_unit() { run unit unit; }
stage_native() { run_if need_kernel native; }
# need_asan: why the sanitizer build cannot be tested here.
need_asan() {
  local reason
  reason=$(need_kernel)
  # The compiler prints the bare name if it has no such library.
  if [[ -z $reason && $(g++ -print-file-name=libasan.so) != /* ]]; then
    reason="needs the compiler's libasan"
  fi
  echo "$reason"
}

# run_asan STAGE [NAME=VALUE...]: the native tests with the sanitizer build. Only one test checks for leaks,
# because Node itself does not free everything.
run_asan() {
  run "$1" native FAIRLEAD_ADDON="$PWD/build/native/fairlead-asan.node" \
    LD_PRELOAD="$(g++ -print-file-name=libasan.so)" ASAN_OPTIONS=detect_leaks=0 \
    LSAN_OPTIONS="suppressions=$PWD/native/lsan.supp:print_suppressions=0" \
    UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 "${@:2}"
}

stage_asan() {
  local reason
  reason=$(need_asan)
  if [[ -n $reason ]]; then
    skip asan test/integration/native "$reason"
  elif ! scripts/build-native --asan; then
    add asan 0 1 0 'does not build'
  else
    run_asan asan
  fi
}

# on_node VERSION [plain]: the addon on another version of Node, and unless `plain` its sanitizer build as well.
on_node() {
  local reason bin code=0 major=${1%%.*}
  reason=$(need_asan)
  if [[ -z $reason ]]; then
    bin=$(scripts/stages/node-binary "$1" 2>&1) || code=$?
    if ((code == 5)); then reason=${bin#error: }; fi
  fi
  if ((code != 0 && code != 5)); then
    add "node$major" 0 1 0 "$bin"
  elif [[ -n $reason ]]; then
    skip "node$major" test/integration/native "$reason"
  elif [[ ${2-} != plain ]] && ! scripts/build-native --asan; then
    add "node$major" 0 1 0 'the sanitizer build fails'
  else
    run "node$major" native PATH="$bin:$PATH"
    if [[ ${2-} != plain ]]; then run_asan "asan$major" PATH="$bin:$PATH"; fi
  fi
}

# Every LTS version of Node that package.json supports, except the current one.
stage_node-versions() {
  local version
  for version in 20.20.2 22.23.3 24.21.0; do
    if [[ $(node --version) != "v${version%%.*}".* ]]; then on_node "$version"; fi
  done
}
# The one that is furthest from the current one: that the addon loads, its objects, maps and the end of a process. All
# files on each version, and the sanitizers: nightly.
stage_node-version() {
  only=(native/lifecycle native/map native/object)
  if [[ $(node --version) == v24.* ]]; then on_node 20.20.2 plain; else on_node 24.21.0 plain; fi
  only=()
}
# What takes long because it repeats: each Node, and random cases by the hundred, of which the other stages play a few.
stage_nightly() {
  local night=(FAIRLEAD_NIGHTLY=1 FAIRLEAD_FUZZ="${FAIRLEAD_FUZZ:-300000}")
  stage_node-versions
  stage_nodes
  only=(laws mutants)
  run unit unit "${night[@]}"
  only=(fuzz)
  run_if need_kernel bpf "${night[@]}"
  only=(histories crash outages)
  run_if need_rules netns "${night[@]}"
  run_if need_packets packets "${night[@]}"
  on_cluster cluster "${night[@]}"
  only=()
}
stage_bpf() { run_if need_kernel bpf; }
# need_rules: as need_netns, with the tools that write and list rules and connections and that read packets, which are
# installed on first use.
need_rules() {
  local reason
  local -A packages=([iptables-legacy]=iptables [nft]=nftables [conntrack]=conntrack [tcpdump]=tcpdump [strace]=strace)
  local missing=() tool
  reason=$(need_netns)
  for tool in "${!packages[@]}"; do
    command -v "$tool" >/dev/null || missing+=("${packages[$tool]}")
  done
  if [[ -n $reason ]]; then
    echo "$reason"
  elif ((${#missing[@]} > 0)) && ! install_packages "${missing[@]}"; then
    echo "needs ${missing[*]}"
  fi
}
stage_netns() { run_if need_rules netns; }
# need_packets: as need_rules, for a cluster of namespaces with a CNI's rules.
need_packets() {
  local reason
  reason=$(need_rules)
  if [[ -n $reason ]]; then
    echo "$reason"
  elif ! unshare --net iptables-legacy --table nat --list-rules >/dev/null; then
    echo 'needs a kernel with the tables of iptables-legacy'
  fi
}
# fairlead in that cluster.
stage_packets() { run_if need_packets packets; }
stage_networks() { run_if need_packets networks; }
# Other people's nodes, on fairlead and, where Go can build it, on the real kube-proxy.
# `npm run -s other-nodes` prints their answers.
stage_nodes() {
  rm -rf "$reports/nodes"
  run_if need_packets nodes "$@"
}
# The same on fairlead alone.
stage_our-nodes() { stage_nodes FAIRLEAD_KUBE_PROXY=0; }
# on_cluster STAGE [NAME=VALUE...]: the stage with a real control plane, whose programs are built once (minutes).
on_cluster() {
  local reason code=0
  reason=$(need_rules)
  if [[ -n ${FAIRLEAD_SKIP_CLUSTER-} ]]; then
    reason='FAIRLEAD_SKIP_CLUSTER is set'
  elif [[ -z $reason && -z ${KUBEBUILDER_ASSETS-} ]]; then
    scripts/cluster/build >/dev/null || code=$?
    if ((code == 5)); then reason='needs Go 1.21 or newer, once, to build a control plane'; fi
  fi
  if ((code != 0 && code != 5)); then
    add "$1" 0 1 0 'its control plane does not build'
  elif [[ -n $reason ]]; then
    skip "$1" "test/integration/$1" "$reason"
  else
    run "$1" "$1" "${@:2}"
  fi
}
stage_cluster() { on_cluster cluster; }
# on_kernels STAGE PROGRAM COMMAND...: in virtual machines with older kernels, which PROGRAM --prepare can make here, by COMMAND.
on_kernels() {
  local output code=0
  if [[ -n ${FAIRLEAD_SKIP_VM-} ]]; then
    skip "$1" "test/integration/$1" 'FAIRLEAD_SKIP_VM is set'
    return
  fi
  output=$("$2" --prepare 2>&1) || code=$?
  case $code in
    0) "${@:3}" ;;
    5)
      output=${output##*$'\n'}
      skip "$1" "test/integration/$1" "${output#error: }"
      ;;
    *)
      say "$output"
      add "$1" 0 1 0 'does not build'
      ;;
  esac
}
stage_vm() { on_kernels vm scripts/kernels/test-vm run vm vm; }
# In virtual machines that share this machine's files, all three at once, because each waits as well as it computes. Its tests build networks, as those of the stages that they are from do.
stage_kernels() {
  local reason
  reason=$(need_rules)
  if [[ -n $reason ]]; then skip kernels test/integration/kernels "$reason"; else on_kernels kernels scripts/kernels/guest each_kernel; fi
}
each_kernel() {
  if [[ ${FAIRLEAD_GUESTS-} == 1 ]]; then in_lanes 'on5.10 on6.1 on6.12'; else in_lanes on6.12 on5.10 on6.1; fi
}
stage_on5.10() { run on5.10 kernels FAIRLEAD_KERNEL=5.10; }
stage_on6.1() { run on6.1 kernels FAIRLEAD_KERNEL=6.1; }
stage_on6.12() { run on6.12 kernels FAIRLEAD_KERNEL=6.12; }
# The test files that virtual machines have, on the running kernel.
stage_guest() { run_if need_packets guest; }
# The cases of `packets` on the real kube-proxy.
stage_oracle() { on_cluster oracle; }
stage_image() { on_cluster image; }
stage_chart() { on_cluster chart; }
# Real nodes: kubelets and containerd are built once (minutes), and so is fairlead's image.
stage_e2e() {
  rm -rf "$reports/e2e"
  on_cluster e2e
  node scripts/docs/e2e-table.mjs
}
stage_docs() { run docs docs; }
