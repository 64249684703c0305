#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# xdp.sh MODE FOLDER: XDP on a card, on a VLAN of it, on a bond of this mode and on a VLAN of that, in a virtual machine whose kernel has them.
# FOLDER has `client`, `server` and `ethtool`. Prints a line for each question, how many frames XDP sent for it, and what `fairlead status` says.
#
#   out -- n1: eth0 192.0.2.11, eth0.6 192.0.6.1, bond0 192.0.9.1, bond0.5 192.0.5.1
#   n1 -- far: eth1 to 10.1.2.5, eth1.7 to 10.1.2.6
set -eu
mode=$1
folder=$2
. test/integration/kernels/lab/lab.sh

# pair NETNS DEVICE ADDRESS ADDRESS: of n1 and of the other one, on devices with the same name; .N is a VLAN.
pair() {
  other=$1 device=$2
  set -- n1 "$3" "$other" "$4"
  while [ $# -gt 0 ]; do
    name=$device
    case $1:$device in far:eth1*) name=eth0${device#eth1} ;; esac
    case $name in
      *.*) ip -n "$1" link add "$name" link "${name%.*}" type vlan id "${name#*.}" ;;
    esac
    ip -n "$1" addr add "$2" dev "$name"
    ip -n "$1" link set "$name" up
    shift 2
  done
}
for number in 0 1; do
  ip -n n1 link add "p$number" type veth peer name "p$number" netns out
done
for name in n1 out; do
  ip -n "$name" link add bond0 type bond mode "$mode" miimon 100
  for port in p0 p1; do
    ip -n "$name" link set "$port" master bond0
    ip -n "$name" link set "$port" up
  done
done
# What a card does: senders fill in checksums and tags, and the other end takes frames of XDP.
like_card() {
  in_net "$1" "$folder/ethtool" "$2" gro on
  in_net "$1" "$folder/ethtool" "$2" tx off
  in_net "$1" "$folder/ethtool" "$2" txvlan off
}
for port in eth0 p0 p1; do like_card out "$port"; done
like_card far eth0
pair out eth0.6 192.0.6.1/24 192.0.6.200/24
pair out bond0 192.0.9.1/24 192.0.9.200/24
pair out bond0.5 192.0.5.1/24 192.0.5.200/24
pair far eth1.7 192.0.7.1/24 192.0.7.2/24
ip -n far addr add 10.1.2.6/32 dev lo
ip -n n1 route add 10.1.2.6 via 192.0.7.2

mkdir "$work/manifests" "$work/bpf"
for protocol in tcp udp; do
  for number in 5 6; do
    cat <<EOF
---
apiVersion: v1
kind: Service
metadata: {name: $protocol$number, namespace: default}
spec:
  {type: NodePort, clusterIP: 10.96.0.$number, clusterIPs: [10.96.0.$number], ipFamilies: [IPv4],
   ports: [{port: 80, protocol: $(echo $protocol | tr a-z A-Z), nodePort: 3000$number}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: $protocol$number, namespace: default, labels: {kubernetes.io/service-name: $protocol$number}}
addressType: IPv4
ports: [{name: "", port: 8080, protocol: $(echo $protocol | tr a-z A-Z)}]
endpoints: [{addresses: [10.1.2.$number], conditions: {ready: true}, nodeName: n2}]
EOF
  done
done >"$work/manifests/web.yaml"
serve far 10.1.2.5 10.1.2.6 -- 8080

mount -t bpf bpf "$work/bpf"
nsenter --net=/run/netns/n1 node dist/main.js run --manifests "$work/manifests" --hostname-override n1 --cluster-cidr 10.1.0.0/16 \
  --cgroup-root "$cgroup" --bpf-root "$work/bpf/fairlead" --run-dir "$work/run" --xdp eth0=native,eth1=native,bond0=native 2>"$work/log" &
agent=$!
until grep -q '"msg":"ready"' "$work/log"; do
  kill -0 "$agent" || { cat "$work/log"; exit 1; }
  sleep 0.2
done
# The first frames of each device.
for address in 192.0.2.11 192.0.6.1 192.0.9.1 192.0.5.1; do
  ask "first, $address" out tcp "$address" 30005 1 20000
  ask "first, $address" out tcp "$address" 30006 1 20000
done
fairlead_status() { node dist/main.js status --run-dir "$work/run" --timeout 60s "$@"; }
tries=0
until [ "$(fairlead_status -o wide | grep -c 'XDP on')" -ge 6 ] || [ $((tries += 1)) -gt 20 ]; do sleep 1; done
sent() { fairlead_status -o json | sed -n 's/.*"XDP_SENT": *\([0-9]*\).*/\1/p' | grep . || echo 0; }
for protocol in tcp udp; do
  for address in 192.0.2.11 192.0.6.1 192.0.9.1 192.0.5.1; do
    for number in 5 6; do
      before=$(sent)
      ask "$protocol, $address, 10.1.2.$number" out "$protocol" "$address" "3000$number" 20 20000
      echo "sent, $protocol, $address, 10.1.2.$number: $(($(sent) - before))"
    done
  done
done
fairlead_status -o wide | sed 's/^/status: /'
ip -n n1 -d link show bond0 | sed 's/^/bond0: /'
kill "$agent"
wait "$agent" || true
in_net n1 node dist/main.js cleanup --bpf-root "$work/bpf/fairlead" --run-dir "$work/run" >/dev/null
