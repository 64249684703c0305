# SPDX-License-Identifier: Apache-2.0
# Debian's kernels for virtual machines: fetches their packages into the user's cache and unpacks image and modules. Sourced
# after lib.sh, never run.

cache=${XDG_CACHE_HOME:-$HOME/.cache}/fairlead/kernels
keyring=/usr/share/keyrings/debian-archive-keyring.gpg

# Loaded in this order, with those that they need; of `NAME?` only if it is a module of this kernel.
modules=(virtio_pci? virtiofs? overlay veth bridge dummy tun vxlan bonding 8021q ipip ip6_tunnel ip_gre geneve sch_ingress cls_bpf
  nft_compat nft_counter? nft_chain_nat nft_limit? nft_log? nft_ct? nft_reject_inet
  nft_fib_ipv4 nft_fib_ipv6 nf_flow_table_inet nft_flow_offload nft_numgen? nft_nat? nft_masq? nft_reject_ipv4? nft_reject_ipv6?
  iptable_nat iptable_filter iptable_mangle iptable_raw ip6table_nat ip6table_filter ip6table_mangle
  xt_nat xt_comment xt_conntrack xt_addrtype xt_mark xt_statistic xt_recent xt_nfacct xt_tcpudp xt_multiport
  xt_limit xt_physdev xt_MASQUERADE ipt_REJECT ip6t_REJECT xt_sctp xt_set xt_ipvs
  nf_conntrack_netlink inet_diag tcp_diag udp_diag raw_diag?
  sctp ip_set_hash_ip ip_set_hash_ipport ip_set_hash_ipportip ip_set_hash_ipportnet ip_set_bitmap_port
  ip_vs_rr ip_vs_wrr ip_vs_sh ip_vs_lc)

# Kernel, and the Debian release that has it.
kernels=(5.10 6.1 6.12)
declare -A suites=([5.10]=bullseye [6.1]=bookworm [6.12]=trixie)

# need_qemu: ends with code 5 and the reason if there can be no virtual machine here.
need_qemu() {
  [[ $(uname -m) == x86_64 ]] || complain 5 'needs an x86-64 machine, as the kernels are for x86-64'
  local tool
  # Not installed by scripts/setup, because only these stages need it.
  if ! command -v qemu-system-x86_64 >/dev/null && ((EUID == 0)) && command -v apt-get >/dev/null; then
    tell 'kernels: installing qemu-system-x86'
    install_packages qemu-system-x86 || true
  fi
  for tool in qemu-system-x86_64 apt-get dpkg-deb xz ip; do
    command -v "$tool" >/dev/null || complain 5 "needs $tool"
  done
  [[ -f $keyring ]] || complain 5 "needs $keyring"
}

# apt FOLDER COMMAND...: with its own lists and sources; those of the machine are not changed.
apt() {
  "$2" -qq -o Dir::Etc::sourcelist="$1/sources.list" -o Dir::Etc::sourceparts=/dev/null \
    -o Dir::State::lists="$1/lists" -o Dir::Cache="$1/cache" -o APT::Sandbox::User= \
    -o Acquire::Languages=none -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false \
    -o APT::Architecture=amd64 "${@:3}"
}

# fetch KERNEL FOLDER: the newest package of this kernel.
fetch() {
  local suite=${suites[$1]} mirror=http://deb.debian.org package
  mkdir -p "$2"/{lists,cache}/partial "$2"/cache/archives/partial
  printf "deb [signed-by=$keyring] $mirror/%s main\n" "debian $suite" \
    "debian-security $suite-security" >"$2/sources.list"
  apt "$2" apt-get update || return 1
  package=$(apt "$2" apt-cache depends linux-image-cloud-amd64 |
    sed -n "s/.*Depends: \(linux-image-$1\.[^ ]*\)/\1/p" | tail -1)
  [[ -n $package ]] || return 1
  (cd "$2" && apt "$2" apt-get download "$package")
}

# package_file KERNEL: path of its newest package in the cache, which is filled if it has none.
package_file() {
  local found fresh
  mkdir -p "$cache"
  found=$(find "$cache" -maxdepth 1 -name "package-$1.*.deb" | sort -V | tail -1)
  if [[ -z $found ]]; then
    fresh=$(mktemp -d "$cache/fresh.XXXXXX")
    if ! fetch "$1" "$fresh" >"$fresh/log" 2>&1; then
      rm -rf "$fresh"
      complain 5 "needs Debian's kernel $1 (${suites[$1]}), which could not be fetched"
    fi
    found=$cache/package-$(dpkg-deb --field "$fresh"/*.deb Version).deb
    mv "$fresh"/*.deb "$found"
    rm -rf "$fresh"
  fi
  say "$found"
}

# modules_of IMAGE: the folder of its modules. It is named after the list of them, so that another list is unpacked again.
modules_of() {
  local list
  list=$(printf '%s\n' "${modules[@]}" | cksum | cut -d' ' -f1)
  say "${1/vmlinuz-/modules-}-$list"
}

# unpack PACKAGE IMAGE: the kernel and its modules. The image is moved into place last: where it is, all is there.
unpack() {
  local fresh
  fresh=$(mktemp -d "$cache/fresh.XXXXXX")
  dpkg-deb --fsys-tarfile "$1" | tar -xO --wildcards './boot/vmlinuz-*' >"$fresh/vmlinuz"
  mkdir "$fresh/tree"
  dpkg-deb --fsys-tarfile "$1" | tar -x -C "$fresh/tree" --wildcards '*/modules/*'
  node test/integration/kernels/modules.mjs "$fresh/tree" "$fresh/modules" "${modules[@]}"
  rm -rf "$(modules_of "$2")"
  mv "$fresh/modules" "$(modules_of "$2")"
  mv "$fresh/vmlinuz" "$2"
  rm -rf "$fresh"
}

# kernel_file KERNEL: path of its image, with its modules beside it.
kernel_file() {
  local package image
  package=$(package_file "$1")
  image=${package/package-/vmlinuz-}
  image=${image%.deb}
  if [[ ! -f $image || ! -d $(modules_of "$image") ]]; then unpack "$package" "$image" >&2; fi
  say "$image"
}
