// SPDX-License-Identifier: Apache-2.0
// Opens a network namespace for one call of the addon. The agent's own needs no capability to enter.
import { open } from 'node:fs/promises';
import { OWN_NETNS } from '../../../../sys/netns-paths.ts';

/** The addon's option. */
export interface NetnsOption {
  readonly netns?: number;
}

export const inNetns = <T>(path: string, work: (netns: NetnsOption) => Promise<T>): Promise<T> =>
  path === OWN_NETNS ? work({}) : entering(path, work);

/** Also the agent's own: shows whether this process may enter any. */
export async function entering<T>(
  path: string,
  work: (netns: NetnsOption) => Promise<T>,
): Promise<T> {
  const file = await open(path);
  try {
    return await work({ netns: file.fd });
  } finally {
    await file.close();
  }
}
