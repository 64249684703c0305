#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# sctp.sh ENGINE FOLDER: Services of SCTP by one engine, in a virtual machine whose kernel has it. FOLDER has `client` and `server`,
# the programs of test/support/fixture. Prints a line for each question: `what: OUTCOME=COUNT...`.
set -eu
engine=$1
folder=$2
. test/integration/kernels/lab/lab.sh

# put NUMBER TARGET_PORT ADDRESS...: the Service 10.96.0.NUMBER:30NUMBER with these endpoints.
put() {
  number=$1 target=$2
  shift 2
  endpoints=
  for address in "$@"; do
    case $address in 10.1.1.*) node=n1 ;; *) node=n2 ;; esac
    endpoints="$endpoints{addresses: [$address], conditions: {ready: true}, nodeName: $node},"
  done
  cat >"$work/.new" <<EOF
apiVersion: v1
kind: Service
metadata: {name: s$number, namespace: default}
spec:
  {type: NodePort, clusterIP: 10.96.0.$number, clusterIPs: [10.96.0.$number], ipFamilies: [IPv4],
   ports: [{port: 30$number, protocol: SCTP, nodePort: 30$number}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: s$number, namespace: default, labels: {kubernetes.io/service-name: s$number}}
addressType: IPv4
ports: [{name: "", port: $target, protocol: SCTP}]
endpoints: [$endpoints]
EOF
  mv "$work/.new" "$work/manifests/s$number.yaml"
}
mkdir "$work/manifests" "$work/bpf"
cat >"$work/manifests/node.yaml" <<EOF
{apiVersion: v1, kind: Node, metadata: {name: n1}, status: {addresses: [{type: InternalIP, address: 192.0.2.11}]}}
EOF
put 100 30100 10.1.1.5 10.1.2.5
put 101 9999 10.1.1.5 10.1.2.5
put 102 30102
put 103 30103 10.1.1.5
put 104 30104 10.1.2.5

serve a 10.1.1.5 -- 30100 9999 30103
serve far 10.1.2.5 -- 30100 9999 30103 30104

mount -t bpf bpf "$work/bpf"
nsenter --net=/run/netns/n1 node dist/main.js run --engine "$engine" --manifests "$work/manifests" --hostname-override n1 \
  --cluster-cidr 10.1.0.0/16 --cgroup-root "$cgroup" --bpf-root "$work/bpf/fairlead" --run-dir "$work/run" \
  --iptables-min-sync-period 10ms 2>"$work/log" &
agent=$!
until grep -q '"msg":"ready"' "$work/log"; do
  kill -0 "$agent" || { cat "$work/log"; exit 1; }
  sleep 0.2
done

ask 'pod, ClusterIP' p sctp 10.96.0.100 30100 40 20000
ask 'outside, NodePort' out sctp 192.0.2.11 30100 40 20000
ask 'outside, NodePort, endpoint elsewhere' out sctp 192.0.2.11 30104 3 20000
ask 'pod, other port' p sctp 10.96.0.101 30101 3 20000
ask 'outside, other port' out sctp 192.0.2.11 30101 3 20000
ask 'pod, no endpoints' p sctp 10.96.0.102 30102 3 20000
ask 'outside, no endpoints' out sctp 192.0.2.11 30102 3 20000
ask 'node, ClusterIP' n1 sctp 10.96.0.100 30100 3 4000

# An association whose endpoint is replaced.
mkfifo "$work/talk"
in_net p "$folder/client" <"$work/talk" >"$work/said" &
exec 3>"$work/talk"
# say ID WORDS: on the open client; prints its answer.
say() {
  before=$(grep -c "^$1 " "$work/said" || true)
  echo "$1 $2" >&3
  until [ "$(grep -c "^$1 " "$work/said" || true)" -gt "$before" ]; do sleep 0.1; done
  grep "^$1 " "$work/said" | tail -1 | sed 's/^[^ ]* [0-9]* //'
}
tracked() {
  in_net n1 conntrack -L -p sctp 2>/dev/null | grep ' dst=10.96.0.103 ' | grep -c ' src=10.1.1.5 ' || true
}
echo "kept, before: $(say 9 'open sctp 10.96.0.103 30103 0 20000 - 0 6')"
echo "tracked to the endpoint, before: $(tracked)"
put 103 30103 10.1.2.5
until in_net p sh -c "echo '1 burst sctp 10.96.0.103 30103 1 5000 - 0 6' | $folder/client" | grep -q 10.1.2.5; do sleep 0.2; done
ask 'new, after' p sctp 10.96.0.103 30103 10 20000
tries=0
until [ "$(tracked)" = 0 ] || [ $((tries += 1)) -gt 100 ]; do sleep 0.2; done
echo "tracked to the endpoint, after: $(tracked)"
echo "kept, after: $(say 9 'talk 3000')"
node dist/main.js status --run-dir "$work/run" --timeout 60s | sed 's/^/status: /'
exec 3>&-
kill "$agent"
wait "$agent" || true
# Also what it has programmed: the next engine begins on a new machine of namespaces.
in_net n1 node dist/main.js cleanup --bpf-root "$work/bpf/fairlead" --run-dir "$work/run" >/dev/null
