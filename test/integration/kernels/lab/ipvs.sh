#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# ipvs.sh: what `fairlead cleanup --kube-proxy` makes of IPVS, in a virtual machine whose kernel has it, with ipvsadm and ipset in
# PATH: virtual servers, ipsets and kube-ipvs0 as kube-proxy leaves them in mode ipvs, and a virtual server of somebody else.
# What each command says follows a line `@ NAME`, and its exit code a line `@code CODE`.
set -u
net=left
ip netns add "$net"
ip -n "$net" link set lo up
in_net() { nsenter --net=/run/netns/$net "$@"; }
# step NAME COMMAND...
step() {
  echo "@ $1"
  shift
  in_net "$@" 2>&1
  echo "@code $?"
}
fairlead() { step "$1" node dist/main.js cleanup --kube-proxy $2; }
held() {
  step "$1" sh -c 'ipvsadm -S -n; ipset save | sed "s/ *\(initval\|bucketsize\|hashsize\|maxelem\) [^ ]*//g"; ip -o addr show dev kube-ipvs0 2>/dev/null'
}

in_net sh -e <<'EOF'
ip link add kube-ipvs0 type dummy
for address in 10.96.0.10/32 203.0.113.10/32 fd00:96::10/128; do ip addr add $address dev kube-ipvs0; done
ip addr add 192.0.2.11/24 dev lo
ipvsadm -A -t 10.96.0.10:80 -s rr
ipvsadm -a -t 10.96.0.10:80 -r 10.1.1.5:8080 -m
ipvsadm -a -t 10.96.0.10:80 -r 10.1.2.5:8080 -m
ipvsadm -A -u 10.96.0.10:53 -s rr -p 10800
ipvsadm -A --sctp-service 203.0.113.10:9999 -s wrr
ipvsadm -A -t [fd00:96::10]:80 -s rr
ipvsadm -a -t [fd00:96::10]:80 -r [2001:db8:1:1::5]:8080 -m
ipvsadm -A -t 192.0.2.11:30080 -s rr
ipvsadm -a -t 192.0.2.11:30080 -r 10.1.1.5:8080 -m
ipvsadm -A -t 192.0.2.11:7777 -s rr
ipvsadm -A -f 7 -s rr
ipset create KUBE-CLUSTER-IP hash:ip,port
ipset add KUBE-CLUSTER-IP 10.96.0.10,tcp:80
ipset create KUBE-6-CLUSTER-IP hash:ip,port family inet6
ipset create KUBE-NODE-PORT-TCP bitmap:port range 0-65535
ipset add KUBE-NODE-PORT-TCP 30080
ipset create KUBE-LOOP-BACK hash:ip,port,ip
ipset create theirs hash:ip
iptables-legacy -t nat -N KUBE-SERVICES
iptables-legacy -t nat -A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
iptables-legacy -t nat -A KUBE-SERVICES -m set --match-set KUBE-CLUSTER-IP dst,dst -j ACCEPT
iptables-nft -t nat -N KUBE-SERVICES
iptables-nft -t nat -A OUTPUT -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
iptables-nft -t nat -A KUBE-SERVICES -m set --match-set KUBE-LOOP-BACK dst,dst,src -j ACCEPT
iptables-legacy -A INPUT -m set --match-set theirs src -j ACCEPT
EOF
held before
fairlead dry-run --dry-run
held after-dry-run
echo '@ without-tools'
in_net env PATH=/usr/sbin:/usr/bin:/sbin:/bin node dist/main.js cleanup --kube-proxy 2>&1
echo "@code $?"
fairlead removed ''
held after
fairlead again ''
ip netns del "$net"
