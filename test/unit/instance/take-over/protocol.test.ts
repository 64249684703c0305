// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from 'vitest';
import {
  difference,
  factsOf,
  type InstanceFacts,
} from '../../../../src/instance/take-over/facts.ts';
import {
  addressesOf,
  addressesText,
  controlLine,
  controlText,
  queryOf,
  refusalOf,
  successorOf,
} from '../../../../src/instance/take-over/protocol.ts';

const facts: InstanceFacts = { netns: '4:1', bpfRoot: '5:2', cgroup: '6:3' };
const successor = { pid: 7, version: '0.2.0', facts };
const files = { bpfRoot: '/bpf', cgroupRoot: '/cgroup' };

describe('what a successor says', () => {
  test.each([
    ['everything', facts],
    ['no cgroup, as with iptables', { ...facts, cgroup: undefined }],
    ['nothing pinned yet', { netns: '4:1', bpfRoot: undefined, cgroup: undefined }],
  ])('%s is read as it was written', (_name, own) => {
    const query = new URLSearchParams(queryOf({ ...successor, facts: own }));
    expect(successorOf(query)).toEqual({ ...successor, facts: own });
  });

  test.each([
    ['', 'nothing'],
    ['pid=0&netns=4:1', 'no process has this id'],
    ['pid=x&netns=4:1', 'no number'],
    ['pid=1.5&netns=4:1', 'no whole number'],
    ['pid=7', 'no network namespace'],
  ])('%j is refused: %s', (query) => {
    expect(successorOf(new URLSearchParams(query))).toBeUndefined();
  });

  test('its engine is read, if it says so', () => {
    const query = new URLSearchParams(queryOf({ ...successor, engine: 'userspace' }));
    expect(successorOf(query)).toEqual({ ...successor, engine: 'userspace' });
  });

  test('fields of later versions are ignored', () => {
    const query = new URLSearchParams(`${queryOf(successor)}&colour=green`);
    expect(successorOf(query)).toEqual(successor);
  });
});

describe('who may not take over', () => {
  test.each<readonly [string, Partial<InstanceFacts>, object | undefined]>([
    ['the same instance may', {}, undefined],
    ['another engine needs no cgroup', { cgroup: undefined }, undefined],
    ['another network namespace', { netns: '4:9' }, { code: 'ALREADY_RUNNING' }],
    [
      'another folder of pins',
      { bpfRoot: '5:9' },
      { code: 'ALREADY_RUNNING', reason: 'its --bpf-root is /bpf, and yours is another one' },
    ],
    [
      'no folder of pins where the agent has one',
      { bpfRoot: undefined },
      { code: 'ALREADY_RUNNING' },
    ],
    [
      'another cgroup',
      { cgroup: '6:9' },
      { code: 'OTHER_CGROUP', reason: 'its --cgroup-root is /cgroup, and yours is another one' },
    ],
  ])('%s', (_name, other, expected) => {
    const refused = difference(facts, files, { ...facts, ...other });
    if (expected === undefined) expect(refused).toBeUndefined();
    else expect(refused).toMatchObject(expected);
  });

  test('where the agent runs iptables, the successor’s files do not matter', () => {
    const own = { netns: '4:1', bpfRoot: undefined, cgroup: undefined };
    const noFiles = { bpfRoot: undefined, cgroupRoot: undefined };
    expect(difference(own, noFiles, facts)).toBeUndefined();
  });

  test('a folder has one identity by whatever path, and none if it is missing', () => {
    const of = (path: string) => factsOf({ bpfRoot: path, cgroupRoot: undefined }).bpfRoot;
    expect(of('/proc/self/../self/ns')).toMatch(/^\d+:\d+$/);
    expect(of('/tmp')).toBe(of('/tmp/../tmp'));
    expect(of('/tmp')).not.toBe(of('/'));
    expect(of('/no/such/folder')).toBeUndefined();
  });
});

describe('lines', () => {
  test.each([
    { kind: 'serves' as const },
    { kind: 'released' as const, count: 0 },
    { kind: 'failed' as const, reason: 'EIO' },
  ])('$kind is read as it was written', (line) =>
    expect(controlLine(controlText(line).trim())).toEqual(line),
  );

  test.each([
    '',
    'serves',
    '{}',
    '{"serves":1}',
    '{"released":-1}',
    '{"released":"2"}',
    '[1]',
    'null',
  ])('%j is no line of the protocol', (text) => expect(controlLine(text)).toBeUndefined());

  const address = { host: '0.0.0.0', port: 10_256, isIpv6Only: false };

  test('addresses are read as they were written, without descriptors', () => {
    const all = [address, { host: '::', port: 1, isIpv6Only: true }];
    const written = addressesText(all.map((each) => ({ ...each, descriptor: 9 })));
    expect(written).not.toContain('descriptor');
    expect(addressesOf(written)).toEqual(all);
  });

  test.each([
    'x',
    '{}',
    JSON.stringify([{ ...address, port: 0 }]),
    JSON.stringify([{ ...address, port: 65_536 }]),
    JSON.stringify([{ ...address, host: '' }]),
    JSON.stringify([{ host: '::', port: 1 }]),
  ])('%s is no list of addresses', (text) => expect(addressesOf(text)).toBeUndefined());

  test('a refusal has a known code and a reason', () => {
    const refusal = { code: 'OTHER_CGROUP', reason: 'because' };
    expect(refusalOf({ ...refusal, pid: 5 })).toEqual(refusal);
    expect(refusalOf({ error: 'no such path' })).toBeUndefined();
    expect(refusalOf({ code: 'toString', reason: 'because' })).toBeUndefined();
    expect(refusalOf('text')).toBeUndefined();
  });
});
