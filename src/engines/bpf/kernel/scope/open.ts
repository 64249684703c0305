// SPDX-License-Identifier: Apache-2.0
// Whose sockets are served at the socket: --socket-scope as far as this node can do it.
import type { Logger } from '../../../../log.ts';
import { SYSTEM_CLOCK } from '../../../../sys/clock.ts';
import { type BpfMap, openRingBuffer } from '../../../../sys/native.ts';
import type { NetworkFollower } from '../../../../sys/netlink/network.ts';
import type { ScopeView, SocketScope } from '../../../snapshot.ts';
import type { PodDevice } from '../../scope/judge.ts';
import { plainNamespaces } from '../../scope/plain.ts';
import { encodeScope, netnsKey, UNKNOWN_NETNS } from '../../scope/state.ts';
import { lookAt, pathsByCookie, reasonOfNoEntry } from './look.ts';
import { followScopes, NOTHING_KNOWN, type ScopeFollower } from './scope-follower.ts';

/** What the programs are loaded with. */
export interface ScopeChoice {
  readonly asked: SocketScope;
  readonly used: SocketScope;
  /** Why that is another one. */
  readonly why?: string;
}

/** @param hasCookies the kernel tells the cookie of a network namespace */
export async function chooseScope(asked: SocketScope, hasCookies: boolean): Promise<ScopeChoice> {
  if (asked === 'pods') return { asked, used: asked };
  if (!hasCookies)
    return {
      asked,
      used: 'pods',
      why: 'this kernel does not tell pods from the node (Linux 5.14 does)',
    };
  const why = asked === 'auto' ? await reasonOfNoEntry() : undefined;
  if (why === undefined) return { asked, used: asked };
  return { asked, used: 'pods', why: `the agent cannot enter network namespaces: ${why}` };
}

export interface SocketScopes {
  /**
   * Tells who translates packets of pods, before the first sync and when they move.
   * @param devices of this dataplane's programs; `all`: another one sees every packet; undefined: nobody translates them
   */
  packetsAreServed(devices: (() => readonly PodDevice[]) | 'all' | undefined): void;
  view(): ScopeView;
  close(): void;
}

export interface ScopeParts {
  readonly choice: ScopeChoice;
  /** fl_netns, new_netns, plain_netns. */
  readonly netns: BpfMap;
  readonly asked: BpfMap;
  readonly plain: BpfMap;
  readonly network: NetworkFollower;
  readonly log: Pick<Logger, 'info' | 'warn'>;
}

export function createScopes({
  choice,
  netns,
  asked,
  plain,
  network,
  log,
}: ScopeParts): SocketScopes {
  let { used, why } = choice;
  let follower: ScopeFollower | undefined;
  let unlisten = (): void => undefined;

  const serve = (devices: () => readonly PodDevice[]): void => {
    if (used === 'host') {
      clear(netns);
      const host = { tgid: 0, found: ['host'], state: 'packets' } as const;
      netns.put(netnsKey(UNKNOWN_NETNS), encodeScope(host));
    } else if (used === 'auto') {
      follower = followScopes({
        ...{ map: netns, look: lookAt, paths: pathsByCookie, devices },
        plain: plainNamespaces(plain.mmap()),
        listen: (onNew) => openRingBuffer(asked, onNew),
        node: () => network.current(),
        ...{ clock: SYSTEM_CLOCK, log },
      });
      unlisten = network.listen(() => follower?.devicesChanged());
    }
  };

  return {
    packetsAreServed(devices) {
      unlisten();
      follower?.close();
      follower = undefined;
      if (devices === undefined && used !== 'pods') {
        used = 'pods';
        why = 'nobody translates packets of pods: there are no programs on devices, and no rules';
      }
      if (used === 'pods') clear(netns);
      if (used !== choice.asked) log.info({ reason: why }, 'sockets of all pods are served');
      if (devices === 'all') serve(() => allOf(network));
      else if (devices !== undefined) serve(devices);
    },
    view: () => ({
      ...{ asked: choice.asked, used, ...(why !== undefined && { why }) },
      ...(follower?.counts() ?? NOTHING_KNOWN),
    }),
    close() {
      unlisten();
      follower?.close();
    },
  };
}

const allOf = (network: NetworkFollower): readonly PodDevice[] =>
  [...network.current().links.keys()].map((ifindex) => ({ ifindex, isServed: true }));

/** What an agent with other settings has left. */
function clear(netns: BpfMap): void {
  const { keys, count } = netns.readAll();
  if (count > 0) netns.deleteBatch(keys);
}
