#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# speed.sh PROXY FOLDER [KUBE_PROXY]: how long clients of a Service take, beside a hundred other Services, by a proxy of proxy.sh, by
# `ipvsadm` alone, or without any (`none`: of the endpoint itself). Prints `what: OUTCOME=COUNT... MILLISECONDS`, by the clock of the virtual
# machine, which counts instructions.
set -eu
proxy=$1
folder=$2
kube_proxy=${3-}
count=2000
. test/integration/kernels/lab/lab.sh
. test/integration/kernels/lab/proxy.sh
serve a 10.1.1.5 -- 8080
to=10.96.0.10:80
others=$(awk 'BEGIN { for (i = 1; i <= 100; i++) print i }')

case $proxy in
  none) to=10.1.1.5:8080 ;;
  ipvsadm)
    in_net n1 sh -c 'echo 1 >/proc/sys/net/ipv4/vs/conntrack; ip link add kube-ipvs0 type dummy'
    for address in 10.96.0.10 $(echo "$others" | sed 's/^/10.96.1./'); do
      echo "addr add $address/32 dev kube-ipvs0"
    done | ip -n n1 -batch -
    for address in 10.96.0.10 $(echo "$others" | sed 's/^/10.96.1./'); do
      echo "-A -t $address:80 -s rr"
      echo "-a -t $address:80 -r 10.1.1.5:8080 -m"
    done | in_net n1 ipvsadm -R
    ;;
  *)
    start_api "$(
      node n1 192.0.2.11
      template=$(service NAME 10.96.ADDRESS '"type": "ClusterIP"' '' "$a" | sed 's/, "nodePort": [^}]*//')
      echo "$template" | sed 's/NAME/web/g; s/ADDRESS/0.10/g'
      for number in $others; do echo ",$template" | sed "s/NAME/other-$number/g; s/ADDRESS/1.$number/g"; done
    )"
    start_proxy
    ;;
esac
address=${to%:*} port=${to#*:}
for range in 10.96.0.0/16 10.1.1.0/24; do ip -n out route add "$range" via 192.0.2.11; done

# timed WHAT NETNS LINES: of the client's input, with the milliseconds that it took.
timed() {
  where=$cgroup
  [ "$2" != out ] || where=$hierarchy
  before=$(date +%s%N)
  answer=$(in_net "$2" sh -c '[ -z "$1" ] || echo $$ >"$1/cgroup.procs"; exec "$2"' sh "$where" "$folder/client" <"$3" |
    awk '{ for (i = 3; i <= NF; i++) { split($i, one, "="); sum[one[1]] += one[2] } } END { for (what in sum) printf "%s=%d ", what, sum[what] }')
  echo "$1: $answer$(($(date +%s%N) / 1000000 - before / 1000000))"
}
# Three times: the clock counts what the proxy does meanwhile, too, which after its start is as much as the connections.
timed_rounds() { for round in 1 2 3; do timed "$1, round $round" "$2" "$3"; done; }
echo "1 burst tcp $address $port $count 60000 - 0 6" >"$work/connections"
{
  echo "9 open tcp $address $port 0 60000 - 0 6"
  awk -v count=$count 'BEGIN { for (i = 1; i < count; i++) print "9 talk 60000" }'
} >"$work/exchanges"
for client in out:outside p:pod; do
  # What is asked first pays for the caches and the translated code.
  timed warm-up "${client%:*}" "$work/connections" >/dev/null
  timed_rounds "connections, ${client#*:}" "${client%:*}" "$work/connections"
  timed_rounds "exchanges, ${client#*:}" "${client%:*}" "$work/exchanges"
done
case $proxy in none | ipvsadm) ;; *) stop_proxy ;; esac
