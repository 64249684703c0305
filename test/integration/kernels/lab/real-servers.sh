#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# real-servers.sh ENGINE FOLDER: the example examples/real-servers, in a virtual machine whose kernel has IPIP: a machine with fairlead, two real
# servers that have none, and a client behind a router. FOLDER has `client` and `server`, the programs of test/support/fixture. Prints a
# line for each question: `what: ANSWER`.
#
#   client 198.51.100.9 -- router -- lb1 192.0.2.11, rs1 192.0.2.81, rs2 192.0.2.82 on one wire
set -eu
engine=$1
folder=$2
example=examples/real-servers
work=$(mktemp -d)
vip4=203.0.113.10 vip6=2001:db8:77::10
in_net() { name=$1; shift; nsenter --net="/run/netns/$name" "$@"; }
hierarchy=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)
cgroup=$hierarchy/fairlead-real-$$
mkdir "$cgroup"

# The other engine follows on this machine.
end() {
  for name in client lb1 rs1 rs2 router; do
    ip netns pids $name | xargs -r kill 2>/dev/null || true
    ip netns del $name
  done
  kill "$holder" 2>/dev/null || true
  umount "$work/bpf" 2>/dev/null || true
  rm -r "$work"
}
trap end EXIT
mkfifo "$work/hold"
sleep 100000 >"$work/hold" &
holder=$!

ip netns add router
# plug NAME HOST: on the wire of lb1, with the router as way to all others.
plug() {
  [ "$1" = router ] || ip netns add "$1"
  ip -n "$1" link set lo up
  ip -n router link add "to-$1" type veth peer name eth0 netns "$1"
  ip -n router link set "to-$1" master wire up
  ip -n "$1" addr add "192.0.2.$2/24" dev eth0
  ip -n "$1" addr add "2001:db8:2::$2/64" dev eth0 nodad
  ip -n "$1" link set eth0 up
  ip -n "$1" route add default via 192.0.2.1
  ip -n "$1" route add default via 2001:db8:2::1
}
ip -n router link set lo up
ip -n router link add wire type bridge
ip -n router addr add 192.0.2.1/24 dev wire
ip -n router addr add 2001:db8:2::1/64 dev wire nodad
ip -n router link set wire up
plug lb1 11
plug rs1 81
plug rs2 82
ip netns add client
ip -n client link set lo up
ip -n router link add to-client type veth peer name eth0 netns client
ip -n router addr add 198.51.100.1/24 dev to-client
ip -n router addr add 2001:db8:9::1/64 dev to-client nodad
ip -n router link set to-client up
ip -n client addr add 198.51.100.9/24 dev eth0
ip -n client addr add 2001:db8:9::9/64 dev eth0 nodad
ip -n client link set eth0 up
ip -n client route add default via 198.51.100.1
ip -n client route add default via 2001:db8:9::1
for name in router lb1; do
  in_net $name sh -c 'echo 1 >/proc/sys/net/ipv4/ip_forward; echo 1 >/proc/sys/net/ipv6/conf/all/forwarding'
done
ip -n router route add $vip4 via 192.0.2.11
ip -n router route add $vip6 via 2001:db8:2::11

for server in 81 82; do
  name=rs$((server - 80))
  in_net $name sh $example/real-server.sh $vip4 $vip6
  # At their own addresses, too: for what is masqueraded.
  nsenter --net=/run/netns/$name "$folder/server" $vip4 $vip6 192.0.2.$server 2001:db8:2::$server -- 80 53 <"$work/hold" >"$work/$name" &
done
until grep -q ready "$work/rs1" && grep -q ready "$work/rs2"; do sleep 0.1; done

cp -r $example "$work/manifests"
rm "$work/manifests/real-server.sh"
mkdir "$work/bpf"
mount -t bpf bpf "$work/bpf"
nsenter --net=/run/netns/lb1 node dist/main.js run --engine "$engine" --manifests "$work/manifests" --hostname-override lb1 \
  --cgroup-root "$cgroup" --bpf-root "$work/bpf/fairlead" --run-dir "$work/run" --iptables-min-sync-period 10ms 2>"$work/log" &
agent=$!
until grep -q '"msg":"ready"' "$work/log"; do
  kill -0 "$agent" || { cat "$work/log"; exit 1; }
  sleep 0.2
done
fairlead() { in_net lb1 node dist/main.js "$@" --run-dir "$work/run"; }

# ask WHAT PROTOCOL ADDRESS PORT COUNT SIZE
ask() {
  echo "$1: $(echo "1 burst $2 $3 $4 $5 20000 - 0 $6" | in_net client "$folder/client" | sed -n 's/^1 [0-9]* //p')"
}
# taken: packets that have come out of the tunnels of each real server.
taken() {
  for name in rs1 rs2; do
    in_net $name awk -v ORS=' ' '/tunl0:|ip6tnl0:/ { sub(/.*:/, ""); print $2 }' /proc/net/dev
  done
}
echo "before: $(taken)"
ask 'TCP, IPv4' tcp $vip4 80 20 16
ask 'UDP, IPv4' udp $vip4 53 20 16
ask 'TCP, IPv6' tcp $vip6 80 20 16
ask 'UDP, IPv6' udp $vip6 53 20 16
echo "after: $(taken)"
# The client is told what fits, and then sends it in fragments.
for tries in 1 2 3; do ask "a datagram of 1,470 bytes, try $tries" udp $vip4 53 1 1470; done

# Full segments, which do not fit beside another header: `bulk` has port 8000 of the same address.
sed -e 's/name: web/name: bulk/; s/service-name: web/service-name: bulk/; s/name: dns.*$/name: dns, protocol: UDP, port: 5353 }/' \
  -e 's/protocol: TCP, port: 80.*$/protocol: TCP, port: 8000 }/; s/77::110/77::111/; s/113.110/113.111/g' $example/web.yaml >"$work/.bulk"
mv "$work/.bulk" "$work/manifests/bulk.yaml"
cat >"$work/sink.js" <<'EOF'
const [address] = process.argv.slice(2);
require('net').createServer({ allowHalfOpen: true }, (socket) => {
  let size = 0;
  socket.on('data', (data) => { size += data.length; });
  socket.on('end', () => socket.end(`${size} bytes of ${socket.remoteAddress}`));
}).listen(8000, address, () => console.log('ready'));
EOF
cat >"$work/source.js" <<'EOF'
const socket = require('net').connect(8000, process.argv[2], () => socket.end(Buffer.alloc(400000)));
socket.setTimeout(60000, () => socket.destroy(new Error('timeout')));
socket.on('data', (data) => console.log(String(data)));
socket.on('error', (error) => console.log(error.code ?? error.message));
EOF
for name in rs1 rs2; do
  for vip in $vip4 $vip6; do
    nsenter --net=/run/netns/$name node "$work/sink.js" $vip >>"$work/sinks" &
    sinks="${sinks-} $!"
  done
done
until [ "$(grep -c ready "$work/sinks")" = 4 ]; do sleep 0.1; done
tries=0
until fairlead services -o wide | grep -q "$vip4:8000"; do
  [ $((tries += 1)) -lt 60 ] || { fairlead status; exit 1; }
  sleep 0.5
done
echo "400,000 bytes, IPv4: $(in_net client node "$work/source.js" $vip4)"
echo "400,000 bytes, IPv6: $(in_net client node "$work/source.js" $vip6)"
kill $sinks

fairlead services -o wide | sed 's/^/services: /'
fairlead explain --from 198.51.100.9:40000 --to $vip4:80 | sed 's/^/explain: /' || true
fairlead status -o json --timeout 60s >"$work/status" || true
echo "reasons: $(grep -o '"DIRECT_[A-Z_]*": *[1-9][0-9]*' "$work/status" | tr -d ' "' | tr '\n' ' ')"

# A targetPort of its own: the rejection is said, and requests come from lb1.
sed 's/port: 80 }/port: 8080 }/' $example/web.yaml >"$work/.web"
mv "$work/.web" "$work/manifests/web.yaml"
tries=0
until fairlead status --timeout 60s >"$work/status" || true; grep -q 'ipip leaves ports' "$work/status" || [ $((tries += 1)) -gt 60 ]; do sleep 0.5; done
sed 's/^/status: /' "$work/status"
kill "$agent"
wait "$agent" || true
