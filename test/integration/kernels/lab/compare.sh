#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# compare.sh PROXY FOLDER [KUBE_PROXY]: what clients see of the same Services of each proxy of proxy.sh.
# Prints a line for each question: `what: OUTCOME=COUNT...`.
set -eu
proxy=$1
folder=$2
kube_proxy=${3-}
. test/integration/kernels/lab/lab.sh
. test/integration/kernels/lab/proxy.sh
nsenter --net=/run/netns/n1 sh -c 'ip link add extra0 type bridge; ip addr add 198.51.100.1/24 dev extra0; ip link set extra0 up'

. test/integration/kernels/lab/objects.sh
serve a 10.1.1.5 -- 8080
serve far 10.1.2.5 -- 8080
# A process of the node that listens on all of its addresses.
serve n1 0.0.0.0 -- 7000

start_api "$objects"
start_proxy

for client in p:pod n1:node out:outside; do
  name=${client#*:} client=${client%:*}
  [ "$client" != out ] || for range in 10.96.0.0/16 203.0.113.0/24 198.51.100.0/24; do ip -n out route add "$range" via 192.0.2.11; done
  ask "$name, ClusterIP" "$client" tcp 10.96.0.10 80 40 20000
  ask "$name, unknown port of a ClusterIP" "$client" tcp 10.96.0.10 81 3 2000
  ask "$name, port of a ClusterIP on which a process of the node listens" "$client" tcp 10.96.0.10 7000 3 2000
  ask "$name, ping of a ClusterIP" "$client" echo 10.96.0.10 0 3 2000
  ask "$name, balancer address" "$client" tcp 203.0.113.10 80 40 20000
  ask "$name, external address" "$client" tcp 203.0.113.110 80 40 20000
  ask "$name, NodePort" "$client" tcp 192.0.2.11 30010 40 20000
  ask "$name, NodePort at another address of the node" "$client" tcp 198.51.100.1 30010 3 2000
  ask "$name, no endpoints, ClusterIP" "$client" tcp 10.96.0.11 80 3 2000
  ask "$name, no endpoints, NodePort" "$client" tcp 192.0.2.11 30011 3 2000
  ask "$name, no endpoints, balancer address" "$client" tcp 203.0.113.11 80 3 2000
  ask "$name, external policy Local without endpoint, NodePort" "$client" tcp 192.0.2.11 30012 3 2000
  ask "$name, external policy Local without endpoint, balancer address" "$client" tcp 203.0.113.12 80 3 2000
  ask "$name, not in the source ranges" "$client" tcp 203.0.113.13 80 3 2000
  ask "$name, internal policy Local without endpoint" "$client" tcp 10.96.0.14 80 3 2000
  ask "$name, session affinity" "$client" tcp 10.96.0.15 80 40 20000
done
ask 'node, NodePort at 127.0.0.1' n1 tcp 127.0.0.1 30010 3 2000
ask 'endpoint, its own Service' a tcp 10.96.0.16 80 3 5000
ask 'node, balancer address as the source' n1 tcp 203.0.113.10 80 1 2000
echo "addresses of the node: $(ip -n n1 -o -4 addr | grep -c '10.96.0.\|203.0.113.' || true)"
if [ "$engine" = auto ]; then
  (fairlead status --run-dir "$work/run" --timeout 60s) | sed 's/^/status: /'
  (fairlead probe --timeout 240 -o wide) | sed 's/^/probe: /'
fi
stop_proxy
