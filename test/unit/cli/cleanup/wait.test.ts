// SPDX-License-Identifier: Apache-2.0
// Waiting for another proxy: what is printed, once each, and how it ends.
import { afterEach, expect, test, vi } from 'vitest';
import { type Found, waitForOtherProxy } from '../../../../src/cli/cleanup/wait.ts';

const printed: string[] = [];

afterEach(() => {
  printed.length = 0;
  vi.restoreAllMocks();
  vi.useRealTimers();
});

/** The last one is found again and again. */
async function waited(timeoutMs: number, all: readonly Found[]): Promise<readonly string[]> {
  vi.useFakeTimers({ toFake: ['performance', 'setTimeout'] });
  vi.spyOn(process.stdout, 'write').mockImplementation((text) => {
    printed.push(String(text).trimEnd());
    return true;
  });
  let looks = 0;
  const look = async (): Promise<Found> => all[Math.min(looks++, all.length - 1)]!;
  const pause = async (ms: number): Promise<void> => void (await vi.advanceTimersByTimeAsync(ms));
  const options = { bpfRoot: '/none', engines: ['bpf'], timeoutMs };
  await waitForOtherProxy(options, look, pause);
  return printed;
}

const lacks = { isServed: false, text: 'IPv4: iptables-nft lacks 1 of 2 addresses' };
const none = { isServed: false, text: 'IPv4: no other proxy has rules' };
const serves = { isServed: true, text: 'IPv4: iptables-nft serves 2 addresses' };

test('a proxy that serves already is only named', async () => {
  expect(await waited(60_000, [serves])).toEqual([serves.text]);
});

test('each change of what is found is said once', async () => {
  expect(await waited(60_000, [none, none, lacks, lacks, serves])).toEqual([
    'waiting up to 1m0s for another proxy to serve this node',
    none.text,
    lacks.text,
    serves.text,
  ]);
});

test('at the deadline: what is missing, what stays, and what to do', async () => {
  await expect(waited(2_000, [lacks])).rejects.toMatchObject({
    code: 'TIMED_OUT',
    exitCode: 124,
    message: `no other proxy serves this node after 2s, so that fairlead's programs and rules stay and serve: ${lacks.text}. Start kube-proxy here, or go on without any proxy by --wait-for-proxy=none`,
  });
});

test('without a Service nothing is said', async () => {
  expect(await waited(60_000, [{ isServed: true, text: '' }])).toEqual([]);
});
