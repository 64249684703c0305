// SPDX-License-Identifier: Apache-2.0
// Which backends are real servers: machines that take requests in IPIP, and answer clients themselves. They are no pods and
// run no agent, so that nothing but their EndpointSlice tells of them.
import { hostPort } from '../../lib/address-bytes.ts';
import type { Backend, BackendList } from '../types.ts';

/** Of a service port with IPIP, whose backends know their nodes: a pod, whose endpoint names its node, unwraps nothing. */
export const isRealServer = ({ isLocal, node }: Pick<Backend, 'isLocal' | 'node'>): boolean =>
  !isLocal && node === undefined;

/** The first real server whose port is not this one, as `192.0.2.80:8080`: nothing is translated on the way there. */
export function otherPort(backends: BackendList, wanted: number): string | undefined {
  for (const backend of backends) {
    const { address, port } = backend;
    if (port !== wanted && isRealServer(backend)) return hostPort(address, port);
  }
  return undefined;
}
