# SPDX-License-Identifier: Apache-2.0
# Services of every kind, in $objects, sourced after proxy.sh.
balancer='"type": "LoadBalancer", "externalTrafficPolicy": "Cluster"'
objects=$(
  node n1 192.0.2.11
  node n2 192.0.3.2
  service web 10.96.0.10 "$balancer, \"externalIPs\": [\"203.0.113.110\"]" '{"ip": "203.0.113.10"}' "$a, $b"; echo ,
  service none 10.96.0.11 "$balancer" '{"ip": "203.0.113.11"}' ''; echo ,
  service local 10.96.0.12 '"type": "LoadBalancer", "externalTrafficPolicy": "Local"' '{"ip": "203.0.113.12"}' "$b"; echo ,
  service ranges 10.96.0.13 "$balancer, \"loadBalancerSourceRanges\": [\"192.0.2.77/32\"]" '{"ip": "203.0.113.13"}' "$a, $b"; echo ,
  service inside 10.96.0.14 '"type": "NodePort", "internalTrafficPolicy": "Local"' '' "$b"; echo ,
  service sticky 10.96.0.15 '"type": "NodePort", "sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 600}}' '' "$a, $b"; echo ,
  service self 10.96.0.16 '"type": "NodePort"' '' "$a"
)
