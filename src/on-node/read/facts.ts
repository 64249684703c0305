// SPDX-License-Identifier: Apache-2.0
// Reads all facts of the node, each by a reader of its own: what one cannot read, the others still tell. Takes a few milliseconds.

import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { reasonOf } from '../../errors.ts';
import { recordOrEmpty } from '../../lib/json.ts';
import { FAMILIES } from '../../model/types.ts';
import { hasLegacyTable, rulesGeneration } from '../../sys/netfilter.ts';
import type { Network } from '../../sys/netlink/network.ts';
import { nftMarks } from '../../sys/netlink/nft/marks.ts';
import { routingRules } from '../../sys/netlink/policy-rules.ts';
import { hasSysAdmin } from '../../sys/process/capabilities.ts';
import type {
  CniFile,
  CniFiles,
  HookPrograms,
  MarkTarget,
  NodeFacts,
  PolicyRule,
  Reading,
} from '../facts.ts';
import { addressesIn, reversePaths } from './devices.ts';
import { cgroupPrograms, devicePrograms } from './programs.ts';

export interface FactsParts {
  readonly network: () => Network;
  /** Undefined: no programs are attached to one. */
  readonly cgroup: string | undefined;
  readonly cniFolder: string;
  /** Names of the programs of this instance, by id; a probe has none. */
  readonly ownPrograms?: () => ReadonlyMap<number, string>;
}

/** Never throws: a reader that fails says why. */
export function createFactsReader({
  network,
  cgroup,
  cniFolder,
  ownPrograms = () => new Map(),
}: FactsParts): () => NodeFacts {
  const marks = createMarksReader();
  return () => ({
    rules: reading('ip rule', policyRules),
    markTargets: reading('rules of nf_tables', marks),
    cni: reading(cniFolder, () => readCni(cniFolder)),
    reversePath: reading('rp_filter', () => reversePaths(network())),
    programs: reading('BPF programs of devices', () =>
      withNames(devicePrograms(network()), ownPrograms),
    ),
    cgroupPrograms:
      cgroup === undefined
        ? { value: [] }
        : reading('BPF programs of the cgroup', () =>
            withNames(cgroupPrograms(cgroup), ownPrograms),
          ),
    addresses: reading('addresses', () => addressesIn(network())),
  });
}

const policyRules = (): readonly PolicyRule[] =>
  FAMILIES.flatMap((family) => rulesOf(family).map((rule) => ({ family, ...rule })));

/** A kernel without IPv6 has no rules for it. */
function rulesOf(family: (typeof FAMILIES)[number]): ReturnType<typeof routingRules> {
  try {
    return routingRules(family);
  } catch (error) {
    if (family === 'IPv6' && reasonOf(error) === 'EOPNOTSUPP') return [];
    throw error;
  }
}

function reading<T>(what: string, read: () => T): Reading<T> {
  try {
    return { value: read() };
  } catch (error) {
    return { unread: `${what}: ${reasonOf(error)}` };
  }
}

// Reads the folder of the CNI's configurations, in the order in which container runtimes do (libcni's ConfFiles).

/** Throws if the folder is there and cannot be read. */
function readCni(folder: string): CniFiles {
  const names = namesIn(folder);
  const files = names
    ?.filter((name) => /\.(conf|conflist|json)$/.test(name))
    .sort()
    .map((name) => fileOf(folder, name));
  return { folder, files };
}

function namesIn(folder: string): readonly string[] | undefined {
  try {
    return readdirSync(folder);
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined;
    throw error;
  }
}

function fileOf(folder: string, file: string): CniFile {
  try {
    const plugins = pluginsIn(JSON.parse(readFileSync(join(folder, file), 'utf8')));
    return plugins.length > 0
      ? { file, plugins }
      : { file, plugins, problem: 'it names no plugin (type, or plugins[].type)' };
  } catch (error) {
    return { file, plugins: [], problem: reasonOf(error) };
  }
}

/** A list has plugins, a single configuration is one. */
function pluginsIn(content: unknown): readonly string[] {
  const { plugins, type } = recordOrEmpty(content);
  const all: readonly unknown[] = Array.isArray(plugins) ? plugins : [{ type }];
  return all
    .map((one) => recordOrEmpty(one)['type'])
    .filter((name): name is string => typeof name === 'string');
}

// Reads which rules of netfilter write marks. The rules of a Service proxy are left out: they are many, and their mark is known.

/** Of kube-proxy, the kubelet and fairlead. */
const OWN_CHAIN = /^(KUBE-|FAIRLEAD-)/;

/** Reads again only if a rule has changed since. */
function createMarksReader(): () => readonly MarkTarget[] {
  let last: { readonly generation: number; readonly marks: readonly MarkTarget[] } | undefined;
  return () => {
    for (const family of FAMILIES) {
      if (!hasLegacyTable(family, 'mangle')) continue;
      const tool = family === 'IPv4' ? 'iptables' : 'ip6tables';
      throw new Error(
        `the table mangle of iptables-legacy is in use: see \`${tool}-legacy -t mangle -S\``,
      );
    }
    const generation = rulesGeneration();
    if (generation !== undefined && last?.generation === generation) return last.marks;
    const marks = nftMarks(isAsked).filter(({ chain }) => !OWN_CHAIN.test(chain));
    last = generation === undefined ? undefined : { generation, marks };
    return marks;
  };
}

/** The table nat has the chains of Services, a hundred thousand on a large cluster. */
const isAsked = (family: string, table: string): boolean =>
  table !== 'kube-proxy' && !(table === 'nat' && ['ip', 'ip6'].includes(family));

// Names of BPF programs where the kernel tells none, which takes CAP_SYS_ADMIN: those of this instance are known by their pins.

/** @param own asked only if a name is missing */
function withNames(
  hooks: readonly HookPrograms[],
  own: () => ReadonlyMap<number, string>,
): readonly HookPrograms[] {
  const hasAll = hooks.every(({ programs }) => programs.every(({ name }) => name !== ''));
  if (hasAll) return hooks;
  const pinned = own();
  const nameless = hasSysAdmin() ? '' : undefined;
  return hooks.map((hook) => ({
    ...hook,
    programs: hook.programs.map((program) =>
      program.name === '' ? { ...program, name: pinned.get(program.id) ?? nameless } : program,
    ),
  }));
}
