#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# modes.sh FOLDER KUBE_PROXY: the real kube-proxy in mode nftables, then in mode ipvs, with the same objects; `fairlead compare` of both and
# of the plan, as JSON in FOLDER; the state of mode ipvs there, too. Prints a line for each comparison, `SIDES: CODE`, and for each question
# to mode ipvs, `CLIENT ADDRESS PORT: OUTCOME=COUNT...`.
set -eu
proxy=nftables
folder=$1
kube_proxy=$2
. test/integration/kernels/lab/lab.sh
. test/integration/kernels/lab/proxy.sh
nsenter --net=/run/netns/n1 sh -c 'ip link add extra0 type bridge; ip addr add 198.51.100.1/24 dev extra0; ip link set extra0 up'
. test/integration/kernels/lab/objects.sh
serve a 10.1.1.5 -- 8080
serve far 10.1.2.5 -- 8080
echo "$objects" >"$folder/objects.json"

start_api "$objects"
start_proxy
in_net n1 nft -y list ruleset >"$folder/nftables.rules"
stop_proxy
proxy=ipvs
start_proxy

in_net n1 iptables-save >"$folder/iptables.save"
in_net n1 ipset save >"$folder/ipset.save"
in_net n1 cat /proc/net/ip_vs >"$folder/ip_vs"
# compared NAME SIDE...
compared() {
  sides=$1
  shift
  code=0
  in_net n1 node dist/main.js compare --kubeconfig "$work/kubeconfig" --hostname-override n1 --cluster-cidr 10.1.0.0/16 --timeout 240s \
    -o json "$@" >"$folder/$sides.json" 2>"$folder/$sides.log" || code=$?
  cat "$folder/$sides.log"
  echo "$sides: $code"
}
compared plan-ipvs
compared ipvs-nftables ipvs "$folder/nftables.rules"

for range in 10.96.0.0/16 203.0.113.0/24; do ip -n out route add "$range" via 192.0.2.11; done
for client in p:pod n1:node out:outside; do
  for address in 10.96.0.10 10.96.0.11 10.96.0.12 10.96.0.13 10.96.0.14 10.96.0.16 203.0.113.10 203.0.113.11 203.0.113.12 203.0.113.13 203.0.113.110; do
    ask "${client#*:} $address 80" "${client%:*}" tcp "$address" 80 24 3000
  done
  for port in 30010 30011 30012 30013 30014 30016; do
    ask "${client#*:} 192.0.2.11 $port" "${client%:*}" tcp 192.0.2.11 "$port" 24 3000
  done
  ask "${client#*:} 10.96.0.10 81" "${client%:*}" tcp 10.96.0.10 81 3 3000
done
stop_proxy
