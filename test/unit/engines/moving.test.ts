// SPDX-License-Identifier: Apache-2.0
// Packets move from eBPF to rules and back while the agent runs.
import { expect, test, vi } from 'vitest';
import { bpfCapabilities, IPTABLES } from '../../../src/engines/capabilities.ts';
import type { Dataplane } from '../../../src/engines/dataplane.ts';
import { createMoving } from '../../../src/engines/router/moving.ts';
import { clusterIp, planOf, servicePort } from './bpf/plans.ts';
import { fakeDataplane } from './support.ts';

const PLAN = planOf(servicePort('web', [clusterIp('10.96.0.10', 80)], []));
const WITH = bpfCapabilities({ packets: true });
const WITHOUT = bpfCapabilities({ packets: false });

function started(open?: () => Promise<Dataplane | undefined>) {
  const journal: string[] = [];
  const bpf = {
    ...fakeDataplane(WITH, journal),
    installation: { ...fakeDataplane(WITH).installation, hooks: [] },
    leaveNewPackets: (isLeft: boolean) => void journal.push(`left: ${isLeft}`),
    servePackets: (isServed: boolean) => {
      bpf.capabilities = isServed ? WITH : WITHOUT;
    },
  } as ReturnType<typeof fakeDataplane> & { capabilities: typeof WITH };
  const rules = fakeDataplane(IPTABLES, journal);
  const openRules = vi.fn(open ?? (async () => rules));
  return { bpf, rules, journal, openRules, moving: createMoving(bpf, openRules) };
}

test('rules serve packets, then eBPF again: who can do what, and why, follows', async () => {
  const { moving, rules, bpf } = started();
  await moving.sync(PLAN, []);
  expect(moving.dataplanes).toEqual([WITH]);
  expect(await moving.movePackets?.('a firewall')).toBe(true);
  expect(moving.dataplanes).toEqual([WITHOUT, IPTABLES]);
  expect(moving.installation.fallback).toEqual({ what: 'packets', reason: 'a firewall' });
  await moving.sync(PLAN, []);
  expect(rules.lines()).toContain('web 10.96.0.10:80/TCP');
  expect(await moving.movePackets?.(undefined)).toBe(true);
  expect(moving.dataplanes).toEqual([WITH]);
  expect(moving.installation.fallback).toBeUndefined();
  expect([rules.isClosed, bpf.isClosed]).toEqual([true, false]);
  // What is in the kernel is left to the hand-over of engines.
  expect(rules.lines()).toContain('web 10.96.0.10:80/TCP');
});

test('the sync after a move is of everything, rules first, whatever was asked', async () => {
  const { moving, journal } = started();
  await moving.movePackets?.('a firewall');
  await moving.sync(PLAN, []);
  expect(journal.map((line) => line.split(': ')[0])).toEqual(['iptables', 'left', 'bpf']);
});

test('a move waits for the sync that runs', async () => {
  const { moving, bpf } = started();
  const { sync } = bpf;
  let end: () => void = () => undefined;
  const held = new Promise<void>((resolve) => {
    end = resolve;
  });
  bpf.sync = async (...asked) => {
    await held;
    return sync(...asked);
  };
  const first = moving.sync(PLAN, []);
  const moved = moving.movePackets?.('a firewall');
  await new Promise(setImmediate);
  expect(moving.dataplanes).toEqual([WITH]);
  end();
  await Promise.all([first, moved]);
  expect(moving.dataplanes).toEqual([WITHOUT, IPTABLES]);
});

test('where rules cannot be opened nothing changes', async () => {
  const { moving } = started(async () => undefined);
  expect(await moving.movePackets?.('a firewall')).toBe(false);
  expect(moving.dataplanes).toEqual([WITH]);
  expect(moving.installation.fallback).toBeUndefined();
});

test('what tells of room and of loss still does after a move', async () => {
  const { moving, bpf, rules } = started();
  const [room, loss] = [vi.fn(), vi.fn()];
  rules.onLoss = (listener) => listener();
  moving.onRoom(room);
  moving.onLoss?.(loss);
  await moving.movePackets?.('a firewall');
  bpf.tellRoom();
  expect([room.mock.calls.length, loss.mock.calls.length]).toEqual([1, 1]);
});

test('rules that are opened while it is closed are closed, too', async () => {
  let open: (rules: Dataplane) => void = () => undefined;
  const { moving, rules } = started(() => new Promise((resolve) => (open = resolve)));
  const moved = moving.movePackets?.('a firewall');
  await new Promise(setImmediate);
  moving.close();
  open(rules);
  expect(await moved).toBe(false);
  expect(rules.isClosed).toBe(true);
});

test.each(['a firewall', undefined])(
  'closed while a move waits for a sync (to %s): nothing is opened anew',
  async (reason) => {
    const { moving, bpf, rules } = started();
    let end: () => void = () => undefined;
    const held = new Promise<void>((resolve) => {
      end = resolve;
    });
    bpf.sync = async () => {
      await held;
      throw new Error('closed');
    };
    const served: boolean[] = [];
    bpf.servePackets = (isServed: boolean) => void served.push(isServed);
    const sync = moving.sync(PLAN, []).catch(() => undefined);
    const moved = moving.movePackets?.(reason);
    await new Promise(setImmediate);
    moving.close();
    end();
    await sync;
    expect(await moved).toBe(false);
    expect(served).toEqual([]);
    expect(rules.isClosed).toBe(reason !== undefined);
  },
);
