// SPDX-License-Identifier: Apache-2.0
// Removes an instance: its links, maps and pins of any layout version, and the files in its run directory.
// Synchronous, so that it can run in the exit handler of an agent.
import { existsSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { lastGoodPath } from '../config/instance-paths.ts';
import {
  listProgrammed,
  recordedAddresses,
  removeProgrammed,
  removeRecorded,
} from '../instance/dataplanes.ts';
import { listWrittenRules, removeWrittenRules } from '../instance/leftovers/written-rules.ts';
import { socketPath } from '../server/admin-socket.ts';
import { instancePath } from '../server/instance-file.ts';

/** Written by src/source/apiserver/transport/remembered.ts. */
const REMEMBERED = 'api-servers.json';

export interface InstancePaths {
  readonly bpfRoot: string;
  readonly runDir: string;
}

/** The parts of an instance: pins by their path below bpfRoot, files by their full path. */
export interface InstanceParts {
  /** Tables of iptables, which belong to the network namespace. */
  readonly rules: ReturnType<typeof listWrittenRules>;
  readonly links: readonly string[];
  readonly maps: readonly string[];
  readonly files: readonly string[];
  /** Of Services, on the loopback device. */
  readonly addresses: readonly string[];
}

/** Lists what an instance has in the kernel and on disk. */
export const listInstance = (
  { bpfRoot, runDir }: InstancePaths,
  rules = listWrittenRules,
): InstanceParts => ({
  ...listProgrammed(bpfRoot),
  rules: rules(),
  addresses: recordedAddresses(runDir),
  files: filesOf(runDir),
});

/** Removes the parts that exist and returns them. Throws BPF_ROOT_IN_USE, RESTORE_FAILED. */
export function removeInstance(
  { bpfRoot, runDir }: InstancePaths,
  removeRules = removeWrittenRules,
): InstanceParts {
  const removed = removeProgrammed(bpfRoot, runDir);
  const rules = removeRules();
  const addresses = removeRecorded(runDir);
  const files = filesOf(runDir);
  for (const path of files) rmSync(path, { force: true });
  return { ...removed, rules, files, addresses };
}

const filesOf = (runDir: string): readonly string[] =>
  [
    ...[socketPath(runDir), instancePath(runDir), join(runDir, REMEMBERED)],
    // The second one is of a write that did not end.
    ...[lastGoodPath(runDir), `${lastGoodPath(runDir)}.new`],
  ].filter((path) => existsSync(path));

/** `9 links, 16 maps, 40 chains, 1 file`; empty if there is nothing. */
export function partsText({ links, maps, rules, files, addresses }: InstanceParts): string {
  const chains = rules.parts.reduce((sum, part) => sum + part.chains, 0);
  return [
    counted(links.length, 'link'),
    counted(maps.length, 'map'),
    counted(chains, 'chain'),
    counted(files.length, 'file'),
    counted(addresses.length, 'address', 'addresses'),
  ]
    .filter((text) => text !== '')
    .join(', ');
}

const counted = (count: number, noun: string, many = `${noun}s`): string =>
  count === 0 ? '' : `${count} ${count === 1 ? noun : many}`;
