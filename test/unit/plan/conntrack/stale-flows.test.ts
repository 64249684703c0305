// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from 'vitest';
import type { ObjectChange } from '../../../../src/model/types.ts';
import {
  type Flow,
  portsOf,
  staleFlows,
  staleScope,
} from '../../../../src/plan/conntrack/stale-flows.ts';
import { remove } from '../../../support/objects.ts';
import { createPlanner } from '../../../support/plan/planner.ts';
import { changesIn, ready, SETTINGS, service, slice } from '../support.ts';

const UDP = { ports: [{ name: 'dns', port: 53, protocol: 'UDP', nodePort: 30053 }] };
const dns = (name: string, number: number, spec: object = {}) =>
  service(name, number, { ...UDP, ...spec });
const udpSlice = (owner: string, ...endpoints: readonly object[]) =>
  slice(owner, endpoints, { ports: [{ name: 'dns', port: 5353, protocol: 'UDP' }] });

const flow = (destination: string, destinationPort: number, replySource: string): Flow => ({
  protocol: 'UDP',
  destination,
  destinationPort,
  replySource,
  replySourcePort: replySource === destination ? destinationPort : 5353,
});

const LOCAL = new Set(['192.0.2.11', '2001:db8::11']);
const toA = flow('10.96.0.1', 53, '10.1.1.5');
const toB = flow('10.96.0.1', 53, '10.1.1.6');
const untranslated = flow('10.96.0.1', 53, '10.96.0.1');

function staleAfter(
  history: readonly ObjectChange[],
  last: readonly ObjectChange[],
  flows: readonly Flow[],
) {
  const planner = createPlanner(SETTINGS);
  planner.apply(history);
  return staleFlows(staleScope(changesIn(planner.apply(last))), flows, LOCAL);
}

describe('staleFlows', () => {
  const a = [dns('a', 1), udpSlice('a', ready('10.1.1.5'))];

  it('a Service that comes after its flows frees those that went nowhere', () => {
    expect(staleAfter([a[1]!], [a[0]!], [untranslated, toA])).toEqual([untranslated]);
  });

  it('the first endpoint frees flows from before it', () => {
    expect(staleAfter([dns('a', 1)], [a[1]!], [untranslated])).toEqual([untranslated]);
  });

  it('a pod that moves to another port is another backend', () => {
    const moved = slice('a', [ready('10.1.1.5')], {
      ports: [{ name: 'dns', port: 5454, protocol: 'UDP' }],
    });
    expect(staleAfter(a, [moved], [toA])).toEqual([toA]);
  });

  it('a frontend that goes lets go of what it had translated, and of nothing else', () => {
    const nodePort = flow('192.0.2.11', 30053, '10.1.1.5');
    const foreign = flow('192.0.2.11', 30053, '10.9.9.9');
    const without = dns('a', 1, { ports: [{ name: 'dns', port: 53, protocol: 'UDP' }] });
    expect(staleAfter(a, [without], [nodePort, foreign, toA])).toEqual([nodePort]);
  });

  it('a frontend that another Service takes over is judged by its new backends', () => {
    const older = { metadata: { creationTimestamp: '2026-01-01T00:00:00Z' } };
    const first = service('b', 1, UDP, older);
    const history = [...a, first, udpSlice('b', ready('10.1.1.6'))];
    expect(staleAfter(history, [remove(first)], [toA, toB])).toEqual([toB]);
  });

  it('IPv4 and IPv6 NodePorts are two things', () => {
    const to6: Flow = { ...flow('2001:db8::11', 30053, '2001:db8:1::5') };
    expect(staleAfter(a, [udpSlice('a', ready('10.1.1.6'))], [to6])).toEqual([]);
  });

  it('nothing is looked at when no UDP port changed', () => {
    const planner = createPlanner(SETTINGS);
    planner.apply(a);
    const delta = planner.apply([service('web', 9), slice('web', [ready('10.1.1.9')])]);
    const { size } = staleScope(changesIn(delta));
    expect(size).toBe(0);
  });

  it('SCTP is looked at as UDP is, and neither for the other', () => {
    const both = (...names: readonly ('UDP' | 'SCTP')[]) =>
      names.map((protocol) => ({ name: protocol.toLowerCase(), port: 53, protocol }));
    const sctpToA: Flow = { ...toA, protocol: 'SCTP' };
    const history = [
      service('a', 1, { ports: both('UDP', 'SCTP') }),
      slice('a', [ready('10.1.1.5')], {
        ports: both('UDP', 'SCTP').map((port) => ({ ...port, port: 5353 })),
      }),
    ];
    const udpAlone = slice('a', [ready('10.1.1.5')], {
      ports: both('UDP').map((port) => ({ ...port, port: 5353 })),
    });
    const toTcp: Flow = { ...toA, protocol: 'TCP' };
    expect(staleAfter(history, [udpAlone], [toA, sctpToA, toTcp])).toEqual([sctpToA]);
  });

  it('after a start every UDP and SCTP frontend is looked at', () => {
    const planner = createPlanner(SETTINGS);
    const delta = planner.apply([...a, service('web', 9)]);
    const scope = staleScope(changesIn(delta));
    expect([...scope.keys()]).toEqual(['UDP|10.96.0.1|53', 'UDP|IPv4|30053']);
    expect(staleFlows(scope, [toA, toB], LOCAL)).toEqual([toB]);
  });

  it('tells which families and ports have to be read', () => {
    const planner = createPlanner(SETTINGS);
    const delta = planner.apply([...a, service('web', 9)]);
    const ports = portsOf(staleScope(changesIn(delta)));
    expect([...ports.keys()]).toEqual(['IPv4']);
    const has = ports.get('IPv4')!;
    const asked = [53, 30053, 80].map((port) => has('UDP', port));
    expect([...asked, has('TCP', 53)]).toEqual([true, true, false, false]);
  });
});
