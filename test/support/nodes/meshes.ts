// SPDX-License-Identifier: Apache-2.0
// Rules that meshes write in the network namespaces of their pods, as their init containers do, and the proxy that they
// redirect to.
import { type LineProgram, startLines } from '../../../tools/lab/lines.ts';
import { compiled } from '../programs/compiled.ts';
import type { OtherNode } from './other-node.ts';

export const ISTIO_PORT = 15_001;
export const LINKERD_PORT = 4140;

/** istio-init, with its exception for the proxy's own user. */
export const ISTIO: readonly string[] = [
  '*nat',
  ':ISTIO_INBOUND - [0:0]',
  ':ISTIO_IN_REDIRECT - [0:0]',
  ':ISTIO_OUTPUT - [0:0]',
  ':ISTIO_REDIRECT - [0:0]',
  '-A PREROUTING -p tcp -j ISTIO_INBOUND',
  '-A OUTPUT -p tcp -j ISTIO_OUTPUT',
  ...[15008, 15090, 15021, 15020].map(
    (port) => `-A ISTIO_INBOUND -p tcp -m tcp --dport ${port} -j RETURN`,
  ),
  '-A ISTIO_INBOUND -p tcp -j ISTIO_IN_REDIRECT',
  '-A ISTIO_IN_REDIRECT -p tcp -j REDIRECT --to-ports 15006',
  '-A ISTIO_OUTPUT -o lo -m owner ! --uid-owner 1337 -j RETURN',
  '-A ISTIO_OUTPUT -m owner --uid-owner 1337 -j RETURN',
  '-A ISTIO_OUTPUT -o lo -m owner ! --gid-owner 1337 -j RETURN',
  '-A ISTIO_OUTPUT -m owner --gid-owner 1337 -j RETURN',
  '-A ISTIO_OUTPUT -j ISTIO_REDIRECT',
  `-A ISTIO_REDIRECT -p tcp -j REDIRECT --to-ports ${ISTIO_PORT}`,
  'COMMIT',
];

/** What istio-init adds with interceptionMode TPROXY. */
export const ISTIO_TPROXY: readonly string[] = [
  '*mangle',
  ':ISTIO_INBOUND - [0:0]',
  ':ISTIO_DIVERT - [0:0]',
  ':ISTIO_TPROXY - [0:0]',
  '-A PREROUTING -p tcp -j ISTIO_INBOUND',
  '-A ISTIO_INBOUND -p tcp -m conntrack --ctstate RELATED,ESTABLISHED -j ISTIO_DIVERT',
  '-A ISTIO_INBOUND -p tcp -j ISTIO_TPROXY',
  '-A ISTIO_DIVERT -j ACCEPT',
  '-A ISTIO_TPROXY ! -d 127.0.0.1/32 -p tcp -j TPROXY --on-port 15006 --on-ip 0.0.0.0 --tproxy-mark 0x539/0xffffffff',
  'COMMIT',
];

/** proxy-init. */
export const LINKERD: readonly string[] = [
  '*nat',
  ':PROXY_INIT_OUTPUT - [0:0]',
  ':PROXY_INIT_REDIRECT - [0:0]',
  '-A PREROUTING -m comment --comment "proxy-init/install-proxy-init-prerouting" -j PROXY_INIT_REDIRECT',
  '-A OUTPUT -m comment --comment "proxy-init/install-proxy-init-output" -j PROXY_INIT_OUTPUT',
  '-A PROXY_INIT_OUTPUT -m owner --uid-owner 2102 -j RETURN',
  '-A PROXY_INIT_OUTPUT -o lo -j RETURN',
  '-A PROXY_INIT_OUTPUT -p tcp -m multiport --dports 4567,4568 -j RETURN',
  `-A PROXY_INIT_OUTPUT -p tcp -j REDIRECT --to-ports ${LINKERD_PORT}`,
  '-A PROXY_INIT_REDIRECT -p tcp -m multiport --dports 4190,4191,4567,4568 -j RETURN',
  '-A PROXY_INIT_REDIRECT -p tcp -j REDIRECT --to-ports 4143',
  'COMMIT',
];

/** A redirect in nf_tables' own words. */
export const NATIVE = `table inet redirecting {
  chain output {
    type nat hook output priority -100;
    oifname "lo" return
    meta skuid 1337 return
    tcp dport 80 redirect to :${ISTIO_PORT}
  }
}`;

/** The same, to an address of loopback. */
export const NATIVE_DNAT = `table ip redirecting4 {
  chain output {
    type nat hook output priority -100;
    oifname "lo" return
    tcp dport 80 dnat to 127.0.0.1:${ISTIO_PORT}
  }
}`;

/** Answers what is redirected to the port with the destination that the client had. */
export const startMeshProxy = (
  { stage }: OtherNode,
  pod: string,
  port: number,
): Promise<LineProgram> =>
  startLines(stage().cluster.sandbox(pod), [
    compiled(`${import.meta.dirname}/mesh-proxy.c`),
    String(port),
  ]);
