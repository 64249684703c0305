// SPDX-License-Identifier: Apache-2.0
// Which programs are run on nodes that have both, one or none of the two variants, and under which names.
import { describe, expect, test } from 'vitest';
import { findTools } from '../../../../../src/engines/iptables/kernel/find.ts';
import type { RunProgram, SaveOptions } from '../../../../../src/engines/iptables/kernel/tools.ts';
import type { RunResult } from '../../../../../src/sys/exec.ts';

const ok = (stdout = ''): RunResult => ({ code: 0, stdout, stderr: '' });
const bad = (stderr: string, code = 3): RunResult => ({ code, stdout: '', stderr });
const MISSING = bad('', 127);
const NFT = 'iptables-save v1.8.9 (nf_tables)\n';
const LEGACY = 'iptables-save v1.8.9 (legacy)\n';
const RULES = '*filter\n-A INPUT -j ACCEPT\n-A INPUT -j DROP\nCOMMIT\n';

/** Answers by program, and by program and first argument; ip6tables as iptables. */
const nodeWith =
  (answers: Readonly<Record<string, RunResult>>): RunProgram =>
  async (program, [first = '']) =>
    answers[`${program} ${first}`.trim()] ??
    answers[program] ??
    answers[`${program} ${first}`.trim().replace('ip6', 'ip')] ??
    answers[program.replace('ip6', 'ip')] ??
    MISSING;

const both = {
  'iptables-nft-save --version': ok(NFT),
  'iptables-nft-save': ok(),
  'iptables-legacy-save --version': ok(LEGACY),
  'iptables-legacy-save': ok(),
};

const found = async (answers: Readonly<Record<string, RunResult>>): Promise<string> => {
  const asked: string[] = [];
  const node = nodeWith(answers);
  const { variant, families, missing } = await findTools(
    async (program, args, options) => {
      asked.push(program);
      return node(program, args, options);
    },
    () => undefined,
  );
  asked.length = 0;
  await families.get('IPv4')?.save();
  const without = missing.map(({ family, reason }) => `, no ${family}: ${reason}`).join('');
  return `${variant}: ${asked.join()}${without}`;
};

describe('iptables of a node', () => {
  test.each<[title: string, answers: Readonly<Record<string, RunResult>>, expected: string]>([
    ['both, empty', both, 'nft: iptables-nft-save'],
    [
      'rules in legacy',
      { ...both, 'iptables-legacy-save': ok(RULES) },
      'legacy: iptables-legacy-save',
    ],
    [
      'nft that the kernel does not have',
      {
        ...both,
        'iptables-nft-save': bad(
          'iptables-nft-save: Could not fetch rule set generation id: Invalid argument\n',
        ),
      },
      'legacy: iptables-legacy-save',
    ],
    [
      'rules in legacy, which the kernel does not have any more',
      {
        ...both,
        'iptables-legacy-save': ok(RULES),
        'iptables-legacy-save -t': bad(
          "can't initialize iptables table `nat': Table does not exist\n",
        ),
      },
      'nft: iptables-nft-save',
    ],
    [
      'legacy without nat for IPv6',
      {
        ...both,
        'iptables-legacy-save': ok(RULES),
        'ip6tables-legacy-save -t': bad(
          "can't initialize ip6tables table `nat': Table does not exist\n",
        ),
      },
      "legacy: iptables-legacy-save, no IPv6: can't initialize ip6tables table `nat': Table does not exist",
    ],
    [
      'one program, which is nft',
      { 'iptables-save --version': ok(NFT), 'iptables-save': ok() },
      'nft: iptables-save',
    ],
    [
      'one program, older than the variants',
      { 'iptables-save --version': ok('iptables-save v1.6.2\n'), 'iptables-save': ok() },
      'legacy: iptables-save',
    ],
    [
      'no IPv6',
      {
        ...both,
        'ip6tables-nft-save': bad(
          "ip6tables-nft-save: can't initialize: Address family not supported\n",
        ),
      },
      "nft: iptables-nft-save, no IPv6: ip6tables-nft-save: can't initialize: Address family not supported",
    ],
  ])('%s', async (_, answers, expected) => {
    expect(await found(answers)).toBe(expected);
  });

  test.each<[variant: string, legacy: RunResult, programs: number]>([
    ['nft', ok(), 4],
    ['legacy, whose table of nat is asked for', ok(RULES), 6],
  ])('a start waits for few programs: %s', async (_, legacy, programs) => {
    let count = 0;
    const node = nodeWith({ ...both, 'iptables-legacy-save': legacy });
    await findTools((program, args) => {
      count += 1;
      return node(program, args);
    });
    expect(count).toBe(programs);
  });

  test.each(['nft', 'legacy'] as const)(
    'what it has read serves until somebody writes, with nft: %s',
    async (variant) => {
      const all = { ...both, 'iptables-legacy-save': ok(variant === 'legacy' ? RULES : '') };
      const node = nodeWith(all);
      let generation = 7;
      let count = 0;
      const { families } = await findTools(
        (program, args) => {
          count += 1;
          return node(program, args);
        },
        () => generation,
      );
      const tools = families.get('IPv4');
      const programsFor = async (options?: SaveOptions): Promise<number> => {
        count = 0;
        expect(await tools?.save(options)).toBe(variant === 'nft' ? '' : RULES);
        return count;
      };
      const isKept = variant === 'nft' ? 0 : 1;
      expect(await programsFor()).toBe(isKept);
      expect(await programsFor({ counters: true })).toBe(1);
      expect(await programsFor({ isLast: true })).toBe(isKept);
      expect(await programsFor()).toBe(1);
      generation += 1;
      expect(await programsFor()).toBe(1);
    },
  );

  test('a reading of before is not used when others have written', async () => {
    const answers: Record<string, RunResult> = { ...both };
    let generation = 7;
    const { families } = await findTools(
      (program, args) => nodeWith(answers)(program, args),
      () => generation,
    );
    answers['iptables-nft-save'] = ok(RULES);
    generation += 1;
    expect(await families.get('IPv4')?.save()).toBe(RULES);
  });

  test('none', async () => {
    await expect(found({})).rejects.toThrow(
      'no iptables works on this node: iptables-nft-save was not found: install the package iptables, or put it into PATH; iptables-legacy-save was not found',
    );
  });

  test('two that the kernel refuses', async () => {
    const answers = {
      ...both,
      'iptables-nft-save': bad('nft: Protocol not supported\n'),
      'iptables-legacy-save -t': bad(
        "legacy: can't initialize iptables table `nat': Table does not exist\n",
      ),
    };
    await expect(found(answers)).rejects.toThrow(
      "no iptables works on this node: iptables-nft-save: nft: Protocol not supported; iptables-legacy-save: legacy: can't initialize iptables table `nat': Table does not exist",
    );
  });
});
