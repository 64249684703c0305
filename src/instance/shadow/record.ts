// SPDX-License-Identifier: Apache-2.0
// What an agent with --shadow has found, in its run directory: an agent that is to serve this node reads it before it starts.
import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { FairleadError } from '../../errors.ts';
import { isRecord, recordOrEmpty } from '../../lib/json.ts';
import { type Differing, differingText } from '../../observe/shadow-view.ts';

export interface ShadowRecord {
  /** When it was found. */
  readonly at: string;
  readonly differing: readonly Differing[];
}

export const recordPath = (runDir: string): string => join(runDir, 'shadow.json');

/** Throws what the file system throws. */
export function writeRecord(runDir: string, record: ShadowRecord): void {
  const path = recordPath(runDir);
  writeFileSync(`${path}.new`, `${JSON.stringify(record)}\n`);
  renameSync(`${path}.new`, path);
}

/** Once an agent serves: what rules of an earlier proxy say then is no proof. */
export const removeRecord = (runDir: string): void => rmSync(recordPath(runDir), { force: true });

/** undefined: there is none, or the file says something else. */
export function readRecord(runDir: string): ShadowRecord | undefined {
  try {
    const { at, differing } = recordOrEmpty(JSON.parse(readFileSync(recordPath(runDir), 'utf8')));
    if (typeof at !== 'string' || !Array.isArray(differing)) return undefined;
    return { at, differing: differing.filter(isDiffering) };
  } catch {
    return undefined;
  }
}

const isDiffering = (value: unknown): value is Differing =>
  isRecord(value) && typeof value['service'] === 'string' && typeof value['what'] === 'string';

/**
 * Throws SHADOW_DIFFERS if Services of this node would be served in another way than by kube-proxy.
 * @returns what to log if the start goes on although the record has differences; undefined: it has none
 */
export function checkRecord(
  record: ShadowRecord | undefined,
  isAnyway: boolean,
): string | undefined {
  if (record === undefined || record.differing.length === 0) return undefined;
  const { at, differing } = record;
  const count = differing.length;
  const what = `${count} ${count === 1 ? 'Service' : 'Services'} of this node would be served in another way than by kube-proxy, as --shadow has found (${at}): ${differingText(differing)}`;
  if (isAnyway) return what;
  throw new FairleadError(
    'SHADOW_DIFFERS',
    `${what}; see \`fairlead compare\`, and change the Service or the settings until \`fairlead status\` of an agent with --shadow has none, or start with --switch-anyway`,
  );
}
