// SPDX-License-Identifier: Apache-2.0
// What is said of kernels that do not do what direct return needs; test/integration/bpf tries a real one.
import { describe, expect, test } from 'vitest';
import {
  reasonForNoDirectReturn,
  tryFrames,
} from '../../../../../../src/engines/bpf/direct-return/kernel/direct-trial.ts';
import type { BpfProgram } from '../../../../../../src/sys/native.ts';

type Run = (frame: Uint8Array, words: Uint32Array) => readonly [retval: number, out: Uint8Array];

const EMPTY: Uint8Array = new Uint8Array();

const programOf = (run: Run): Pick<BpfProgram, 'testRun'> => ({
  testRun: ({ dataIn = EMPTY, contextIn = EMPTY }) => {
    const words = new Uint32Array(contextIn.buffer).subarray(12, 17);
    const [retval, dataOut] = run(dataIn, words);
    return { retval, dataOut, durationNs: 0, contextOut: contextIn };
  },
});

const typed = (frame: Uint8Array, version: number | undefined): Uint8Array => {
  frame.set(version === 4 ? [0x08, 0x00] : [0x86, 0xdd], 12);
  return frame;
};

/** As bpf/probe/direct.bpf.c does it. */
const WRAP: Run = (frame, [outer, size = 0]) => {
  const out = new Uint8Array(frame.length + size).fill(0x5a);
  out.set(frame.subarray(0, 14));
  out.set(frame.subarray(14), 14 + size);
  return [7, typed(out, outer)];
};
const UNWRAP: Run = (frame, [, inner, size = 0]) => {
  const out = new Uint8Array(frame.length - size);
  out.set(frame.subarray(0, 14));
  out.set(frame.subarray(14 + size), 14);
  return [0, typed(out, inner)];
};

const tried = async (wrap: Run, unwrap: Run): Promise<readonly (string | undefined)[]> => {
  const said: string[] = [];
  const warn = (...words: readonly unknown[]): void => void said.push(String(words[1]));
  const attempt = async (): Promise<void> =>
    tryFrames({ wrap: programOf(wrap), unwrap: programOf(unwrap) });
  return [await reasonForNoDirectReturn({ warn }, attempt), ...said];
};

/** An answer of the kernel in place of the program's. */
const failing = (step: number, error: number): Run => {
  return (frame) => [(step << 16) | error, frame];
};
/** Of tunnels whose headers are this large. */
const onlyOf = (size: number, run: Run, other: Run): Run => {
  return (frame, words) => (words.includes(size) ? run : other)(frame, words);
};

test('a kernel that does it all', async () => {
  expect(await tried(WRAP, UNWRAP)).toEqual([undefined]);
});

describe('a kernel that does not', () => {
  test.each<[string, Run, Run, string]>([
    [
      'make room',
      failing(1, 524),
      UNWRAP,
      'IPv4 in Geneve between nodes of IPv4 cannot be sent: bpf_skb_adjust_room() makes no room for headers (error 524)',
    ],
    [
      'look up a route of IPv6',
      onlyOf(68, failing(3, 22), WRAP),
      UNWRAP,
      'IPv4 in Geneve between nodes of IPv6 cannot be sent: bpf_fib_lookup() looks up no route (error 22)',
    ],
    [
      'put the headers where they belong',
      (frame, words) => [7, WRAP(frame, words)[1].reverse()],
      UNWRAP,
      'IPv4 in Geneve between nodes of IPv4 cannot be sent: the headers are not around the packet',
    ],
    [
      'send past the stack',
      (frame, words) => [2, WRAP(frame, words)[1]],
      UNWRAP,
      'IPv4 in Geneve between nodes of IPv4 cannot be sent: the program returns 2',
    ],
    [
      'change families',
      WRAP,
      onlyOf(60, failing(4, 1), UNWRAP),
      'IPv6 in Geneve between nodes of IPv4 cannot be received: bpf_skb_adjust_room() and bpf_skb_change_proto() take no headers off (error 1)',
    ],
    [
      'take all of it off',
      WRAP,
      (frame) => [0, frame],
      'IPv4 in Geneve between nodes of IPv4 cannot be received: what is left is not the packet',
    ],
    [
      'send IPIP',
      onlyOf(40, failing(1, 524), WRAP),
      UNWRAP,
      'IPv6 in IPIP cannot be sent: bpf_skb_adjust_room() makes no room for headers (error 524)',
    ],
  ])('%s', async (_, wrap, unwrap, reason) => {
    expect(await tried(wrap, unwrap)).toEqual([reason, 'there is no direct return on this node']);
  });
});

test('what could not be tried counts as working, and is logged', async () => {
  const refused: Run = () => {
    throw new Error('ENOMEM');
  };
  expect(await tried(refused, UNWRAP)).toEqual([
    undefined,
    expect.stringContaining('could not be tried'),
  ]);
});
