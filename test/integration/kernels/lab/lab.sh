# SPDX-License-Identifier: Apache-2.0
# What sctp.sh, compare.sh and speed.sh share, sourced: a node and its neighbours as network namespaces of a virtual machine, and questions
# asked by `client` in $folder, the program of test/support/fixture.
#
#   p (10.1.1.9), a (10.1.1.5) -- n1 (192.0.2.11) -- out (192.0.2.200)
#                                 n1 (192.0.3.1)  -- far: b (10.1.2.5)
work=$(mktemp -d)
# Everything is below this cgroup, which the socket hooks are attached to; there may be none.
hierarchy=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)
cgroup=${hierarchy:+$hierarchy/fairlead-lab-$$}
enter() { [ -z "$1" ] || echo $$ >"$1/cgroup.procs"; }
[ -z "$cgroup" ] || mkdir "$cgroup"
enter "$cgroup"
in_net() { name=$1; shift; nsenter --net="/run/netns/$name" "$@"; }

for name in n1 p a out far; do
  ip netns add "$name"
  ip -n "$name" link set lo up
  in_net "$name" sh -c "echo '0 0' >/proc/sys/net/ipv4/ping_group_range"
done
# wire NAME DEVICE NODE_ADDRESS PEER_ADDRESS: a peer of n1.
wire() {
  ip -n n1 link add "$2" type veth peer name eth0 netns "$1"
  ip -n n1 addr add "$3" dev "$2"
  ip -n n1 link set "$2" up
  ip -n "$1" addr add "$4" dev eth0
  ip -n "$1" link set eth0 up
}
wire out eth0 192.0.2.11/24 192.0.2.200/24
wire far eth1 192.0.3.1/24 192.0.3.2/24
for pod in p:9 a:5; do
  address=10.1.1.${pod#*:}
  wire "${pod%:*}" "v${pod%:*}" 10.1.1.1/32 "$address/32"
  ip -n n1 route add "$address" dev "v${pod%:*}"
  ip -n "${pod%:*}" route add 10.1.1.1 dev eth0
  ip -n "${pod%:*}" route add default via 10.1.1.1
done
ip -n far addr add 10.1.2.5/32 dev lo
ip -n far route add default via 192.0.3.1
ip -n n1 route add 10.1.2.5 via 192.0.3.2
ip -n n1 route add default via 192.0.2.200
in_net n1 sh -c 'echo 1 >/proc/sys/net/ipv4/ip_forward; echo 0 >/proc/sys/net/ipv4/icmp_ratelimit'

# ask WHAT NETNS PROTOCOL ADDRESS PORT COUNT TIMEOUT_MS: how new connections end. Only those of `out` are not below the cgroup.
ask() {
  where=$cgroup
  [ "$2" != out ] || where=$hierarchy
  answer=$(echo "1 burst $3 $4 $5 $6 $7 - 0 16" |
    in_net "$2" sh -c '[ -z "$1" ] || echo $$ >"$1/cgroup.procs"; exec "$2"' sh "$where" "$folder/client" | sed -n 's/^1 [0-9]* //p')
  echo "$1: $answer"
}

# serve NETNS ADDRESS -- PORT...: until the script ends.
mkfifo "$work/hold"
sleep 100000 >"$work/hold" &
holder=$!
serve() {
  name=$1
  shift
  nsenter --net="/run/netns/$name" "$folder/server" "$@" <"$work/hold" >/dev/null &
}

end_lab() {
  kill "$holder" 2>/dev/null || true
  for name in n1 p a out far; do
    ip netns pids "$name" | xargs -r kill 2>/dev/null || true
    ip netns del "$name"
  done
  umount "$work/bpf" 2>/dev/null || true
  rm -r "$work"
  enter "$hierarchy"
  for tries in 1 2 3 4 5 6 7 8 9; do
    [ -d "$cgroup" ] || break
    rmdir "$cgroup" 2>/dev/null || sleep 0.5
  done
}
trap end_lab EXIT
