// SPDX-License-Identifier: Apache-2.0
// Direct return of the packet layer: its maps, the secrets of the cluster, other nodes, and the port of this one.
import type { Logger } from '../../../../log.ts';
import type { Plan } from '../../../../plan/types.ts';
import type { BpfMap } from '../../../../sys/native.ts';
import type { NetworkFollower } from '../../../../sys/netlink/network.ts';
import type { Entry } from '../../../entry.ts';
import type { CookieView } from '../../../snapshot.ts';
import { arrayTable, hashTable } from '../../kernel/maps/kernel.ts';
import type { ArrayTable, DirectTables } from '../../state/tables.ts';
import { createDirectPort, type DirectPort } from '../direct-port.ts';
import { createPeers } from '../peers.ts';
import { followCookies, type SecretFile } from './cookie-follow.ts';

export interface DirectReturnLayer {
  readonly tables: DirectTables;
  /** Why this node must not take part in it although the kernel can. */
  readonly whyNot: string | undefined;
  cookies(): CookieView;
  /** Once the programs are this agent's. @returns whether an earlier agent has left the port open */
  begin(runtime: ArrayTable, network: NetworkFollower): { readonly wasOpen: boolean };
  follow(plan: Plan): void;
  /** Compares with the kernel what it needs to know: other nodes, the port and the MTU. Repairs it. */
  audit(node: Plan['node']): readonly Entry[];
  close(): void;
}

export function openDirectReturn(
  { map }: { readonly map: (name: string) => BpfMap },
  {
    isAble,
    secretFile,
    log,
  }: {
    /** The kernel can do it, and the programs are loaded with it. */
    readonly isAble: boolean;
    readonly secretFile: SecretFile | undefined;
    readonly log: Pick<Logger, 'info' | 'warn'>;
  },
): DirectReturnLayer {
  const peers = createPeers(hashTable(map('fl_peer')), log);
  const cookies = followCookies(map('fl_cookie'), secretFile, log);
  let port: DirectPort | undefined;
  return {
    tables: {
      backendNode: arrayTable(map('fl_backend_node')),
      localBackend: hashTable(map('fl_local_be')),
    },
    whyNot: cookies.whyNot,
    cookies: () => cookies.view(),
    begin(runtime, network) {
      port = createDirectPort(runtime, network, isAble && cookies.whyNot === undefined);
      return { wasOpen: port.wasOpen };
    },
    follow(plan) {
      peers.follow(plan.node);
      port?.follow(plan);
    },
    audit: (node) => [...peers.audit(node), ...(port?.audit() ?? []), ...cookies.audit()],
    close() {
      port?.close();
      cookies.close();
    },
  };
}
