// SPDX-License-Identifier: Apache-2.0
// Members of the running kernel's struct sk_buff are where bpftool says, which prints the same BTF as text.
import { readFileSync } from 'node:fs';
import { beforeAll, describe, expect, test } from 'vitest';
import { readKernelBtf } from '../../../src/sys/btf/kernel.ts';
import { lookUp } from '../../../src/sys/btf/member.ts';
import { kernelStructs } from '../../../src/sys/btf/structs.ts';
import { runSync } from '../../../src/sys/exec.ts';
import { openObject } from '../../../src/sys/native.ts';
import { socketObject } from './support/drive.ts';

/** By id: the lines of its members. */
const types = new Map<string, readonly string[]>();
let packet = '';

beforeAll(() => {
  const { stdout } = runSync('bpftool', ['btf', 'dump', 'file', '/sys/kernel/btf/vmlinux']);
  for (const text of stdout.split('\n[')) {
    const [head = '', ...members] = text.split('\n');
    const [id = ''] = head.replace('[', '').split(']');
    if (/ (STRUCT|UNION) /.test(head)) types.set(id, members);
    if (head.includes(" STRUCT 'sk_buff' ")) packet = id;
  }
});

const kernelMemberOffset = (struct: string, member: string, path?: string): number | undefined =>
  readKernelBtf((read) => lookUp(read, { members: [{ struct, member }] }).offsets[0], path);

function printed(id: string, wanted: string): number | undefined {
  for (const line of types.get(id) ?? []) {
    const [, name, type = '', bits] = /'(.*)' type_id=(\d+) bits_offset=(\d+)/.exec(line) ?? [];
    if (name === wanted) return Number(bits);
    const inner = name === '(anon)' ? printed(type, wanted) : undefined;
    if (inner !== undefined) return Number(bits) + inner;
  }
  return undefined;
}

test.each(['ip_summed', 'next', 'dev', 'len', 'cloned', 'fclone', 'mark', 'csum', 'truesize'])(
  'sk_buff.%s',
  (member) => {
    expect(printed(packet, member)).toBeGreaterThanOrEqual(0);
    expect(kernelMemberOffset('sk_buff', member)).toBe(printed(packet, member));
  },
);

test('no such member, no such struct, no such file', () => {
  expect(kernelMemberOffset('sk_buff', 'skc_state')).toBeUndefined();
  expect(kernelMemberOffset('no_such_struct', 'len')).toBeUndefined();
  expect(kernelMemberOffset('sk_buff', 'len', '/sys/kernel/btf/none')).toBeUndefined();
});

describe('programs of sockets', () => {
  const bytes = readFileSync(socketObject);
  const tagsWith = (kernelTypes?: Uint8Array): Readonly<Record<string, string>> => {
    const object = openObject(bytes, { name: 'btf', ...(kernelTypes && { kernelTypes }) });
    try {
      object.load();
      const tags = object.programs.map(({ name }) => [name, object.program(name).info.tag]);
      return Object.fromEntries(tags);
    } finally {
      object.close();
    }
  };

  test('are the same with what is read of the BTF as with all of it', () => {
    const { ofSockets } = kernelStructs();
    expect(ofSockets?.length).toBeLessThan(1000);
    expect(tagsWith(ofSockets)).toEqual(tagsWith());
  });

  test('differ with other offsets', () => {
    const { ofSockets = new Uint8Array() } = kernelStructs();
    const other = Buffer.from(ofSockets);
    const bitField = 2 ** 24 + (kernelMemberOffset('sock', 'sk_kern_sock') ?? 0);
    const at = other.indexOf(new Uint8Array(Uint32Array.of(bitField).buffer));
    expect(at).toBeGreaterThan(0);
    other.writeUInt32LE(bitField + 8, at);
    expect(tagsWith(other)).not.toEqual(tagsWith());
  });

  test('are refused with what is no BTF', () => {
    expect(() => tagsWith(new Uint8Array(64))).toThrow();
  });
});
