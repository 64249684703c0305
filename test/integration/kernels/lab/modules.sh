#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# modules.sh PROXY FOLDER: what clients see where the kernel lacks xt_statistic and xt_recent, and once they are loaded. Prints a line for each
# question, `before` and `after`, and what `fairlead status` says.
set -eu
proxy=$1
folder=$2
. test/integration/kernels/lab/lab.sh
. test/integration/kernels/lab/proxy.sh

cluster_ip='"type": "NodePort"'
sticky='"sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 600}}'
objects=$(
  node n1 192.0.2.11
  service one 10.96.0.10 "$cluster_ip" '' "$a"; echo ,
  service two 10.96.0.11 "$cluster_ip" '' "$a, $b"; echo ,
  service sticky 10.96.0.12 "$cluster_ip, $sticky" '' "$a"; echo ,
  service none 10.96.0.13 "$cluster_ip" '' ''
)
serve a 10.1.1.5 -- 8080
serve far 10.1.2.5 -- 8080
start_api "$objects"
start_proxy

# until_status COMMAND...: of what `fairlead status` says, in $work/status.
until_status() {
  while (fairlead status --run-dir "$work/run" --timeout 60s) >"$work/status" || true; ! "$@"; do sleep 0.5; done
}
both_failed() { grep -q '^Failed: .*default/two' "$work/status" && grep -q '^Failed: .*default/sticky' "$work/status"; }
none_failed() { ! grep -q '^Failed:' "$work/status"; }

# ask_all WHEN
ask_all() {
  ask "$1, one endpoint" p tcp 10.96.0.10 80 8 20000
  ask "$1, two endpoints" p tcp 10.96.0.11 80 24 2000
  ask "$1, session affinity" p tcp 10.96.0.12 80 8 2000
  ask "$1, no endpoints" p tcp 10.96.0.13 80 1 2000
  echo "$1, lines of nat that name it: $(in_net n1 iptables-save -t nat | grep -c 'default/two\|default/sticky' || true)"
  sed "s/^/$1, status: /" "$work/status"
}

until_status both_failed
ask_all before
"$folder/insmod" "$folder"/modules/*-xt_statistic.ko "$folder"/modules/*-xt_recent.ko
until_status none_failed
ask_all after
stop_proxy
