#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A machine within this machine: namespaces for mounts, host name, network and cgroups. Its files are this machine's, below a layer for
# what it writes; its cgroups are a subtree of each hierarchy.
#   node.sh make DIRECTORY PREFIX NAME COMMAND...   COMMAND holds the node; prints `ready` before it
#   node.sh enter PREFIX NAME PID COMMAND...              COMMAND on the node that process PID holds
set -e

# join PREFIX NAME: moves this process into the node's cgroup of every hierarchy.
join() {
  for hierarchy in $(awk '$3 ~ /^cgroup2?$/ && $2 ~ "^/sys/fs/cgroup/[^/]+$" { print $2 }' /proc/mounts); do
    cgroup=$hierarchy/$1/$2
    for level in "$hierarchy/$1" "$cgroup"; do
      mkdir -p "$level"
      if [ -f "$level/cpuset.cpus" ]; then
        cat "$hierarchy/cpuset.cpus" >"$level/cpuset.cpus"
        cat "$hierarchy/cpuset.mems" >"$level/cpuset.mems"
      fi
    done
    # What is counted as failed should not be what waits for other work of this machine.
    if [ -f "$hierarchy/$1/cpu.shares" ]; then echo 8192 >"$hierarchy/$1/cpu.shares"; fi
    echo $$ >"$cgroup/cgroup.procs"
  done
}

# setting NAME VALUE: what a kubelet expects of the machine, shown to it without a change of the machine.
setting() {
  mkdir -p "run/settings/${1%/*}"
  echo "$2" >"run/settings/$1"
  mount --bind "run/settings/$1" "proc/sys/$1"
}

mount_cgroups() {
  mount -t tmpfs -o mode=755 cgroup sys/fs/cgroup
  while read -r _ point type options _; do
    case $point in /sys/fs/cgroup/*/*) continue ;; /sys/fs/cgroup/*) ;; *) continue ;; esac
    mkdir -p ".$point"
    case $type in
      cgroup2) mount -t cgroup2 cgroup2 ".$point" ;;
      # The hierarchy is found by its controllers or its name.
      cgroup) mount -t cgroup -o "$(echo "$options" | sed 's/^rw,//; s/relatime,//')" cgroup ".$point" ;;
    esac
  done </proc/mounts
}

mount_root() {
  cd "$1"
  mkdir -p root upper work containerd kubelet
  mount -t overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" overlay root
  cd root
  mkdir -p var/lib/containerd var/lib/kubelet etc/cni/net.d .old
  mount --bind "$1/containerd" var/lib/containerd # An overlay cannot be the upper layer of another one.
  mount --bind "$1/kubelet" var/lib/kubelet
  mount --rbind /dev dev
  mount -t proc proc proc
  mount -t sysfs sysfs sys
  mount -t tmpfs -o mode=755 run run
  mount -t tmpfs -o mode=1777 tmp tmp
  mount -t bpf bpf sys/fs/bpf
  mount_cgroups
  setting vm/overcommit_memory 1
  setting vm/panic_on_oom 0
  setting kernel/panic 10
  setting kernel/panic_on_oops 1
  setting kernel/keys/root_maxkeys 1000000
  setting kernel/keys/root_maxbytes 25000000
  cp "$1"/cni.conflist "$1"/*.toml "$1"/*.yaml "$1"/kubeconfig "$1"/resolv.conf run/
  pivot_root . .old
  umount -l /.old
  mount --make-rshared / # As systemd does: mounts of the node appear in containers, and theirs on the node.
}

case $1 in
  make)
    join "$3" "$4"
    exec unshare --mount --uts --cgroup --propagation private "$0" hold "$@"
    ;;
  hold) # Runs in the namespaces.
    hostname "$5"
    mount_root "$3"
    shift 5
    cd /
    echo ready
    exec "$@"
    ;;
  enter)
    join "$2" "$3"
    pid=$4
    shift 4
    exec nsenter --target "$pid" --mount --uts --net --cgroup "$@"
    ;;
esac
