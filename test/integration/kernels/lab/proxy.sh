# SPDX-License-Identifier: Apache-2.0
# The proxies of a lab, sourced after lab.sh: with a path in $kube_proxy, the real kube-proxy in mode $proxy; else $proxy is `bpf`, `iptables` or `nftables` (engines of
# fairlead), or --engine auto: `auto` as the kernel is, `seccomp` and `capabilities` where eBPF is forbidden. The API server is the stub of
# test/support/fixture.

# service NAME CLUSTER_IP SPEC STATUS ENDPOINTS: as JSON, with ports 80/TCP to 8080.
service() {
  cat <<EOF | tr -d '\n'
{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "$1", "namespace": "default", "uid": "$1"}, "spec":
{"clusterIP": "$2", "clusterIPs": ["$2"], "ipFamilies": ["IPv4"], "ports": [{"name": "http", "port": 80, "targetPort": 8080,
"protocol": "TCP", "nodePort": 300${2##*.}}], $3}, "status": {"loadBalancer": {"ingress": [$4]}}},
{"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": {"name": "$1", "namespace": "default", "uid": "s-$1",
"labels": {"kubernetes.io/service-name": "$1"}}, "addressType": "IPv4", "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
"endpoints": [$5]}
EOF
}
node() {
  echo "{\"apiVersion\": \"v1\", \"kind\": \"Node\", \"metadata\": {\"name\": \"$1\", \"uid\": \"$1\"}, \"spec\": {}, \"status\": {\"addresses\": [{\"type\": \"InternalIP\", \"address\": \"$2\"}]}},"
}
a='{"addresses": ["10.1.1.5"], "nodeName": "n1", "conditions": {"ready": true}}'
b='{"addresses": ["10.1.2.5"], "nodeName": "n2", "conditions": {"ready": true}}'

# start_api OBJECTS: in JSON, with commas between them.
start_api() {
  mkfifo "$work/api"
  nsenter --net=/run/netns/n1 node build/tools/lab/stub-server.js 127.0.0.1 6443 <"$work/api" >"$work/api.log" &
  exec 4>"$work/api"
  echo "{\"put\": [$(echo "$1" | tr -d '\n')]}" >&4
  until grep -q done "$work/api.log"; do sleep 0.2; done
  cat >"$work/kubeconfig" <<EOF
{"apiVersion": "v1", "kind": "Config", "clusters": [{"name": "stub", "cluster": {"server": "http://127.0.0.1:6443"}}],
"users": [{"name": "proxy", "user": {"token": "none"}}], "current-context": "stub",
"contexts": [{"name": "stub", "context": {"cluster": "stub", "user": "proxy"}}]}
EOF
}

mkdir "$work/bpf"
mount -t bpf bpf "$work/bpf"
# fairlead WORDS: as the agent may. `eval` because a ban is a command line with words of its own.
ban=
engine=$proxy
case $proxy in
  seccomp) ban='"$folder/forbid-bpf" 1' engine=auto ;;
  capabilities) ban='setpriv --bounding-set -sys_admin,-bpf,-perfmon' engine=auto ;;
esac
fairlead() { eval "exec nsenter --net=/run/netns/n1 $ban node dist/main.js \"\$@\""; }

# start_proxy: returns once the Service 10.96.0.10 is served.
start_proxy() {
  if [ -n "${kube_proxy-}" ]; then
    nsenter --net=/run/netns/n1 "$kube_proxy" --kubeconfig "$work/kubeconfig" --proxy-mode "$proxy" --ipvs-scheduler rr --hostname-override n1 \
      --cluster-cidr 10.1.0.0/16 --ipvs-min-sync-period 10ms --conntrack-max-per-core 0 --conntrack-min 0 \
      --conntrack-tcp-timeout-established 0s --conntrack-tcp-timeout-close-wait 0s --oom-score-adj 0 2>"$work/log" &
  else
    fairlead run --engine "$engine" --kubeconfig "$work/kubeconfig" --hostname-override n1 --cluster-cidr 10.1.0.0/16 \
      ${cgroup:+--cgroup-root "$cgroup"} --bpf-root "$work/bpf/fairlead" --run-dir "$work/run" --iptables-min-sync-period 10ms 2>"$work/log" &
  fi
  agent=$!
  until echo '1 burst tcp 10.96.0.10 80 1 5000 - 0 6' | in_net p "$folder/client" | grep -q ':8080>'; do
    kill -0 "$agent" || { cat "$work/log"; exit 1; }
    sleep 0.5
  done

  # kube-proxy serves by IPVS before it has written the rules beside it.
  until [ "$proxy" != ipvs ] || in_net n1 iptables-save | grep -q -- '-A KUBE-IPVS-FILTER .*KUBE-IPVS-IPS'; do sleep 0.5; done
}

# stop_proxy: fairlead leaves nothing behind.
stop_proxy() {
  kill "$agent"
  wait "$agent" || true
  if [ -z "${kube_proxy-}" ]; then
    in_net n1 node dist/main.js cleanup --bpf-root "$work/bpf/fairlead" --run-dir "$work/run" >/dev/null
  fi
}
