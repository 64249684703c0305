#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# real-server.sh VIP...: makes this machine a real server for these addresses, as IPVS's tunnel mode wants it too: it takes what comes
# in IPIP, has the addresses, and answers clients itself. As root; until the next boot.
set -eu
modprobe -q ipip 2>/dev/null || true
modprobe -q ip6_tunnel 2>/dev/null || true
# The devices that come with the modules take IPIP from everybody: let nothing but the load balancers reach them.
ip link set tunl0 up
ip link set ip6tnl0 up
for vip in "$@"; do
  case $vip in
    # On a device that nobody asks by ARP or neighbour discovery: other machines must find the balancer there.
    *:*) ip -6 addr replace "$vip/128" dev lo ;;
    *) ip addr replace "$vip/32" dev lo ;;
  esac
done
# Requests come by the tunnel, whose other side is not the way back to the client.
for name in all tunl0; do echo 0 >"/proc/sys/net/ipv4/conf/$name/rp_filter"; done
# On the network of the balancers: nobody else learns the VIP from this machine.
echo 1 >/proc/sys/net/ipv4/conf/all/arp_ignore
echo 2 >/proc/sys/net/ipv4/conf/all/arp_announce
