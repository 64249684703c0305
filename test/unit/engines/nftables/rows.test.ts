// SPDX-License-Identifier: Apache-2.0
// Names as kube-proxy computes them, and where the backends of a chain stand.
import { describe, expect, it } from 'vitest';
import { createBlocks } from '../../../../src/engines/nftables/rows/blocks.ts';
import { durationText } from '../../../../src/engines/nftables/rows/duration.ts';
import {
  endpointNames,
  endpointsMap,
  portOfChain,
  serviceChains,
} from '../../../../src/engines/nftables/rules/names.ts';

const WEB = { namespace: 'ns1', name: 'svc1', portName: 'p80', protocol: 'TCP' } as const;

describe('names', () => {
  it("are kube-proxy's (its proxier_test.go has these)", () => {
    expect(serviceChains(WEB).cluster).toBe('service-ULMVA6XW-ns1/svc1/tcp/p80');
    expect(endpointNames(WEB, { address: '10.180.0.1', port: 80 }).chain).toBe(
      'endpoint-5OJB2KTY-ns1/svc1/tcp/p80__10.180.0.1/80',
    );
  });

  it('have no colon, and say whose chain it is', () => {
    const { chain, affinity } = endpointNames(WEB, { address: 'fd00::5', port: 80 });
    expect(affinity).toMatch(/^affinity-[A-Z2-7]{8}-ns1\/svc1\/tcp\/p80__fd00\.\.5\/80$/);
    expect(portOfChain(chain)).toEqual(WEB);
    expect(portOfChain('services')).toBeUndefined();
  });

  it('fit', () => {
    const long = 'x'.repeat(63);
    const port = { namespace: long, name: long, portName: long, protocol: 'SCTP' } as const;
    const { chain } = endpointNames(port, { address: `${'fd00:'.repeat(7)}1`, port: 65_535 });
    expect(chain.length).toBeLessThan(256);
  });
});

it.each([
  [10, '10s'],
  [10_800, '3h'],
  [86_400, '1d'],
  [90_061, '1d1h1m1s'],
])('%d seconds are %s', (seconds, text) => {
  expect(durationText(seconds)).toBe(text);
});

describe('blocks', () => {
  it('are in one map each', () => {
    const blocks = createBlocks();
    const starts = [1000, 16, 700, 3000].map((count, at) => blocks.take(`${at}`, count));
    expect(starts).toEqual([0, 1024, 2048, 4096]);
    expect(starts.map((start) => endpointsMap('UDP', start))).toEqual([
      'endpoints-udp-0',
      'endpoints-udp-1',
      'endpoints-udp-2',
      'endpoints-udp-4',
    ]);
  });

  it('stay where they are while a set grows within its room', () => {
    const blocks = createBlocks();
    expect(blocks.take('a', 3)).toBe(0);
    expect(blocks.take('b', 2)).toBe(4);
    expect(blocks.take('a', 4)).toBe(0);
    expect(blocks.take('a', 5)).toBe(8);
    expect(blocks.take('c', 4)).toBe(0);
  });

  it('are used again', () => {
    const blocks = createBlocks();
    blocks.take('a', 64);
    expect(blocks.take('a', 2)).toBe(64);
    expect(blocks.take('b', 50)).toBe(0);
    blocks.release('b');
    blocks.release('b');
    expect(blocks.take('c', 64)).toBe(0);
    expect(blocks.take('d', 64)).toBe(128);
  });

  it('are those of an earlier agent, except where two overlap', () => {
    const blocks = createBlocks();
    blocks.adopt([
      { chain: 'b', start: 8, count: 3 },
      { chain: 'a', start: 0, count: 5 },
      { chain: 'c', start: 10, count: 2 },
    ]);
    expect(blocks.take('a', 5)).toBe(0);
    expect(blocks.take('b', 3)).toBe(8);
    expect(blocks.take('c', 2)).toBe(12);
  });
});
