// SPDX-License-Identifier: Apache-2.0
// What a client gets: its set by position and policy, a backend by algorithm, the same one again by session affinity.
import { describe, expect, test } from 'vitest';
import { userspaceCapabilities } from '../../../../src/engines/capabilities.ts';
import { createAffinity } from '../../../../src/engines/userspace/choice/affinity.ts';
import { createBalancer } from '../../../../src/engines/userspace/choice/balancer.ts';
import { createChooser } from '../../../../src/engines/userspace/choice/chooser.ts';
import { verdictOf } from '../../../../src/engines/userspace/choice/verdict.ts';
import {
  type Listener,
  listenersOf,
} from '../../../../src/engines/userspace/listeners/listeners.ts';
import type { Algorithm } from '../../../../src/model/types.ts';
import type { Plan } from '../../../../src/plan/types.ts';
import { randomOf } from '../../../support/random.ts';
import { backend, clusterIp, localNodePort, planOf, servicePort } from '../bpf/plans.ts';

const CAPABILITIES = userspaceCapabilities('port-map');
const NODE = [{ family: 'IPv4', address: '192.0.2.1' }] as const;
const A = backend('10.1.1.1');
const B = backend('10.1.1.2');
const C = backend('10.1.1.3', 8080, true);

const listenerOf = (plan: Plan, key: string): Listener => {
  const found = listenersOf(plan, { nodeAddresses: NODE, addsAddresses: false }).get(key);
  if (found === undefined) throw new Error(`no listener ${key}`);
  return found;
};

const from = (client: string, local = '192.0.2.1') => ({ client, clientPort: 40_000, local });

describe('verdicts', () => {
  const port = servicePort('web', [clusterIp('10.96.0.10'), localNodePort(30080)], [A, B], {
    local: [C],
  });
  const plan: Plan = {
    ...planOf(port),
    detector: { IPv4: { kind: 'cidr', cidr: '10.1.0.0/16' }, IPv6: undefined },
  };
  const at = (client: string, key = 'IPv4 *:30080/TCP') => {
    const verdict = verdictOf(plan, listenerOf(plan, key), from(client), CAPABILITIES);
    const backends =
      verdict.kind === 'forward' ? verdict.candidates.map((one) => one.backend.address) : [];
    return [verdict.position, verdict.kind, ...backends];
  };

  test('the set is that of the position of the client', () => {
    expect(at('198.51.100.1')).toEqual(['outside', 'forward', '10.1.1.3']);
    expect(at('127.0.0.1')).toEqual(['host', 'forward', '10.1.1.1', '10.1.1.2']);
    expect(at('10.1.1.9')).toEqual(['pod', 'forward', '10.1.1.1', '10.1.1.2']);
  });

  test('an empty set is refused or dropped as the rule says', () => {
    const empty = planOf(servicePort('web', [clusterIp('10.96.0.10'), localNodePort(30080)], []));
    const kindOf = (key: string) =>
      verdictOf(empty, listenerOf(empty, key), from('198.51.100.1'), CAPABILITIES).kind;
    expect(kindOf('IPv4 10.96.0.10:80/TCP')).toBe('reject');
    expect(kindOf('IPv4 *:30080/TCP')).toBe('drop');
  });

  test('a backend has the weight of the plan where the algorithm weighs', () => {
    const weighing = { ...port, algorithm: 'weighted-round-robin' } as const;
    const heavy = planOf({ ...weighing, cluster: [{ ...A, weight: 3 }, B] });
    const listener = listenerOf(heavy, 'IPv4 10.96.0.10:80/TCP');
    const verdict = verdictOf(heavy, listener, from('198.51.100.1'), CAPABILITIES);
    expect(verdict).toMatchObject({ candidates: [{ weight: 3 }, { weight: 1 }] });
  });

  test('sources that are not admitted are dropped', () => {
    const filtered = planOf(
      servicePort('web', [{ ...clusterIp('10.96.0.10'), isFiltered: true }], [A], {
        sources: { policy: 'allow', ranges: ['198.51.100.0/24'] },
      }),
    );
    const kindOf = (client: string) =>
      verdictOf(
        filtered,
        listenerOf(filtered, 'IPv4 10.96.0.10:80/TCP'),
        from(client),
        CAPABILITIES,
      ).kind;
    expect(kindOf('198.51.100.1')).toBe('forward');
    expect(kindOf('203.0.113.1')).toBe('drop');
  });
});

describe('algorithms', () => {
  const random = randomOf(7);
  const open = new Map<string, number>();
  const parts = { random, openTo: (_: string, text: string) => open.get(text) ?? 0 };
  const candidates = [
    { backend: A, weight: 3 },
    { backend: B, weight: 1 },
  ];
  const chosen = (algorithm: Algorithm, times: number, clients = ['198.51.100.1']) => {
    const balancer = createBalancer(parts);
    return Array.from({ length: times }, (_, turn) => {
      const client = clients[turn % clients.length] ?? '';
      return balancer.choose({ port: 'p', algorithm, candidates, client }).address;
    });
  };

  test('round robin follows weights, without a run of one backend', () => {
    expect(chosen('weighted-round-robin', 8)).toEqual([
      ...['10.1.1.1', '10.1.1.1', '10.1.1.2', '10.1.1.1'],
      ...['10.1.1.1', '10.1.1.1', '10.1.1.2', '10.1.1.1'],
    ]);
  });

  test('random follows weights', () => {
    const hits = chosen('weighted-random', 4000).filter((one) => one === '10.1.1.1').length;
    expect(hits).toBeGreaterThan(2850);
    expect(hits).toBeLessThan(3150);
  });

  test('least connections, in parts of the weight', () => {
    open.set('10.1.1.1:8080', 5).set('10.1.1.2:8080', 0);
    expect(chosen('weighted-least-connections', 1)).toEqual(['10.1.1.2']);
    open.set('10.1.1.1:8080', 1).set('10.1.1.2:8080', 0);
    expect(chosen('weighted-least-connections', 1)).toEqual(['10.1.1.1']);
  });

  test('a client has its backend by hash, and clients are spread by weight', () => {
    expect(new Set(chosen('source-hash', 5)).size).toBe(1);
    const clients = Array.from({ length: 400 }, (_, n) => `198.51.${n >> 8}.${n & 255}`);
    const hits = chosen('source-hash', 400, clients).filter((one) => one === '10.1.1.1').length;
    expect(hits).toBeGreaterThan(260);
    expect(hits).toBeLessThan(340);
  });
});

describe('session affinity', () => {
  let nowMs = 0;
  const chooserOf = () =>
    createChooser({
      capabilities: CAPABILITIES,
      nowMs: () => nowMs,
      random: randomOf(3),
      openTo: () => 0,
    });
  const planWith = (...backends: readonly (typeof A)[]) =>
    planOf(
      servicePort('web', [clusterIp('10.96.0.10')], backends, {
        affinityTimeoutSeconds: 10,
        algorithm: 'round-robin',
      }),
    );
  const KEY = 'IPv4 10.96.0.10:80/TCP';

  test('lasts from connection to connection, and ends with the backend or the time', () => {
    const chooser = chooserOf();
    const ask = (plan: Plan) => {
      const choice = chooser.choose(plan, listenerOf(plan, KEY), from('198.51.100.1'));
      return choice.kind === 'forward' ? `${choice.backend.address} ${choice.isRemembered}` : '';
    };
    expect(ask(planWith(A, B))).toBe('10.1.1.1 false');
    nowMs = 9_000;
    expect(ask(planWith(A, B))).toBe('10.1.1.1 true');
    nowMs = 18_000;
    expect(ask(planWith(A, B))).toBe('10.1.1.1 true');
    expect(ask(planWith(B, C))).toBe('10.1.1.2 false');
    nowMs = 28_000;
    expect(ask(planWith(C, B))).toMatch(/ false$/);
  });

  test('the client that connected longest ago is forgotten first', () => {
    const affinity = createAffinity(2);
    for (const client of ['a', 'b', 'a', 'c']) affinity.note('p', client, 'x', 0);
    const known = ['a', 'b', 'c'].map((one) => affinity.backendOf('p', one, 1, 0));
    expect(known).toEqual(['x', undefined, 'x']);
    affinity.keep(new Map(), 0);
    expect(affinity.backendOf('p', 'a', 1, 0)).toBeUndefined();
  });
});
