// SPDX-License-Identifier: Apache-2.0
// Reads and writes the lists of xt_recent in /proc, which belong to the network namespace. A list exists as long as a rule names it.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { RECENT_CLIENTS } from '../../../capabilities.ts';
import type { AffinityPort, Remembered } from '../../../predecessor.ts';
import {
  clientsByList,
  hzOf,
  type NowJiffies,
  parseRecent,
  rememberedInLists,
} from '../../state/recent.ts';

const LISTS = '/proc/net/xt_recent';

/** Without them, nothing that endpoints of Services remember. */
export const hasLists = (): boolean => listNames().length > 0;

/** No client has it. */
const NOBODY = '0.0.0.0';

/** Of these service ports. Empty if the module is not loaded. */
export function rememberedByRules(ports: readonly AffinityPort[]): readonly Remembered[] {
  const texts = new Map(listNames().map((list) => [list, readIfThere(list)] as const));
  const [shortest] = [...texts]
    .filter(([, text]) => text !== '')
    .toSorted(([, a], [, b]) => a.length - b.length);
  const now = shortest && nowBy(shortest[0]);
  return now === undefined ? [] : rememberedInLists(ports, (list) => texts.get(list), now);
}

/** '' also if it has gone with its rule meanwhile. */
function readIfThere(list: string): string {
  try {
    return readFileSync(join(LISTS, list), 'utf8');
  } catch {
    return '';
  }
}

/** Those of endpoints: others belong to others. */
function listNames(): readonly string[] {
  try {
    return readdirSync(LISTS).filter((list) => list.startsWith('KUBE-SEP-'));
  } catch {
    return [];
  }
}

/** Only the kernel knows the time in jiffies, and writes it beside a client that is added. */
function nowBy(list: string): NowJiffies | undefined {
  const path = join(LISTS, list);
  writeFileSync(path, `+${NOBODY}\n`);
  const uptimeSeconds = Number(process.hrtime.bigint()) / 1e9;
  const found = parseRecent(readFileSync(path, 'utf8')).find(({ client }) => client === NOBODY);
  writeFileSync(path, `-${NOBODY}\n`);
  if (found === undefined) return undefined;
  return { jiffies: found.lastSeen, hz: hzOf(found.lastSeen, uptimeSeconds) };
}

/** As if each had just connected: no other time can be written. @returns how many clients */
export function rememberByRules(all: readonly Remembered[], maxClients: number): number {
  const known = new Set(listNames());
  let count = 0;
  for (const [list, clients] of clientsByList(all, maxClients)) {
    if (known.has(list) && isWritten(list, clients)) count += clients.length;
  }
  return count;
}

/** False if the list has gone with its rule meanwhile. */
function isWritten(list: string, clients: readonly string[]): boolean {
  try {
    for (const client of clients) writeFileSync(join(LISTS, list), `+${client}\n`);
    return true;
  } catch {
    return false;
  }
}

/** Of one list. Before the module is loaded only its default is known. */
export function maxClients(): number {
  try {
    const text = readFileSync('/sys/module/xt_recent/parameters/ip_list_tot', 'utf8');
    return Number(text) || RECENT_CLIENTS;
  } catch {
    return RECENT_CLIENTS;
  }
}
