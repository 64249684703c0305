// SPDX-License-Identifier: Apache-2.0
// Looks into a network namespace: its cookie, its devices, and its rules that redirect. About a millisecond. Nothing is kept
// open: an open file of a namespace would keep it alive when its pod ends.
import { reasonOf } from '../../../../errors.ts';
import { netnsCookie, openNetlink, xtTargets } from '../../../../sys/native.ts';
import { readNetwork } from '../../../../sys/netlink/follow.ts';
import type { Network } from '../../../../sys/netlink/network.ts';
import { nftRedirects } from '../../../../sys/netlink/nft/redirects.ts';
import { type Redirect, xtRedirects } from '../../../../sys/netlink/redirect.ts';
import { mountedPaths, netnsPaths, OWN_NETNS } from '../../../../sys/netns-paths.ts';
import { codeOf } from '../../errors.ts';
import { entering, inNetns } from '../stale-sockets/namespace.ts';

export interface Seen {
  readonly redirects: readonly Redirect[];
  readonly inside: Network;
}

/** undefined: the namespace of this cookie is not behind this path. Rejects if it is, and cannot be read. */
export const lookAt = (path: string, cookie: bigint): Promise<Seen | undefined> =>
  entered(path, ({ netns }) => {
    if (netnsCookie({ netns }) !== cookie) return undefined;
    return {
      redirects: [...nftRedirects(netns), ...xtRedirects(xtTargets({ netns }))],
      inside: devicesIn(netns),
    };
  });

/** Paths of namespaces by cookie. */
export type Paths = ReadonlyMap<bigint, string>;

/** Every namespace but this process's own that is found and may be entered. */
export async function pathsByCookie(which: 'all' | 'mounted'): Promise<Paths> {
  const paths = which === 'all' ? [...(await netnsPaths()).values()] : await mountedPaths();
  const found = new Map<bigint, string>();
  for (const path of paths.filter((one) => one !== OWN_NETNS)) {
    const cookie = await inNetns(path, async (netns) => netnsCookie(netns)).catch(() => undefined);
    if (cookie !== undefined) found.set(cookie, path);
  }
  return found;
}

/** Why no namespace can be entered, with which this process's own is tried; undefined: they can. */
export async function reasonOfNoEntry(): Promise<string | undefined> {
  try {
    await entering(OWN_NETNS, async ({ netns }) => netnsCookie({ netns: netns ?? 0 }));
    return undefined;
  } catch (error) {
    return codeOf(error) === 'EPERM' ? 'CAP_SYS_ADMIN is missing' : reasonOf(error);
  }
}

export const devicesIn = (netns: number): Network =>
  readNetwork((options) => openNetlink({ ...options, netns }));

/** undefined: nothing is there any more. */
async function entered<T>(
  path: string,
  look: (opened: { readonly netns: number }) => T,
): Promise<T | undefined> {
  try {
    return await entering(path, async ({ netns }) => look({ netns: netns ?? -1 }));
  } catch (error) {
    if (['ENOENT', 'ESRCH'].includes(codeOf(error))) return undefined;
    throw error;
  }
}
