// SPDX-License-Identifier: Apache-2.0
// From samples of traffic to the values of a report, and the objects that proxies are given.
import { expect, test } from 'vitest';
import { prefixContains } from '../../../../../src/lib/ip.ts';
import { Recorder } from '../../../../../tools/bench/measure/recorder.ts';
import { valuesOfSample, WORKLOADS } from '../../../../../tools/bench/measure/workloads.ts';
import {
  type ApiObject,
  lastObjects,
  measuredObjects,
  otherObjects,
  otherSlice,
  probeSlice,
  rollObjects,
} from '../../../../../tools/bench/site/objects.ts';
import { FAR_HALVES } from '../../../../../tools/lab/columns/network.ts';

/** A thousand units in half a second of CPU time. */
const SAMPLE = {
  ...{ units: 1_000, cpuNs: 5e8, lost: 0, resent: 0 },
  ...{ p50Ns: 70_000, p99Ns: 200_000, p999Ns: 900_000 },
};

test('rates are by CPU time, latencies by the clock, UDP requests are two datagrams', () => {
  expect(
    WORKLOADS.flatMap((workload) =>
      valuesOfSample(workload, SAMPLE).map(
        ([metric, value]) => `${workload.call} ${metric} ${value}`,
      ),
    ),
  ).toEqual([
    ...['tcp connections 2000', 'tcp latencyP50 70', 'tcp latencyP99 200', 'tcp latencyP999 900'],
    ...['request requestCpu 500', 'bulk bulk 0.000016', 'udp udp 1000'],
    ...['tcp nodePortConnections 2000', 'udp nodePortUdp 1000'],
  ]);
});

test('a sample of which nothing arrived has no value', () => {
  for (const workload of WORKLOADS) {
    const values = valuesOfSample(workload, { ...SAMPLE, units: 0 });
    expect(values.every(([, value]) => value === null)).toBe(true);
  }
});

test('a recorder keeps the order of rounds, and tells of a share that was lost', () => {
  const recorder = new Recorder();
  recorder.add('start', 'fairlead-bpf', 1);
  recorder.add('start', 'fairlead-bpf', null);
  recorder.countBad('none', 'datagrams lost', { units: 1_000, bad: 0 });
  recorder.countBad('none', 'datagrams lost', { units: 1_000, bad: 30 });
  recorder.countBad('none', 'connections lost', { units: 9_999, bad: 1 });
  recorder.note('fairlead-bpf', 'ended');
  recorder.note('fairlead-bpf', 'ended');
  expect(recorder.samples).toEqual({ start: { 'fairlead-bpf': [1, null] } });
  expect(recorder.notes).toEqual(['fairlead bpf: ended.', 'no proxy: datagrams lost: 1.5 %.']);
});

const addressesOf = (object: unknown): string[] =>
  (object as { endpoints: { addresses: string[] }[] }).endpoints.flatMap(
    ({ addresses }) => addresses,
  );

test('a change moves an endpoint from one half of the far range to the other', () => {
  for (const half of [0, 1] as const) {
    const [address = ''] = addressesOf(probeSlice(half));
    expect(prefixContains(FAR_HALVES[half], address)).toBe(true);
  }
});

test('a roll has all its endpoints in slices, each once, in one half of the range', () => {
  const roll = { endpoints: 5_000, slices: 50 };
  for (const half of [0, 1] as const) {
    const [service, ...slices] = rollObjects(roll, half);
    expect(service?.ref.kind).toBe('Service');
    const all = slices.flatMap((change) =>
      change.type === 'put' ? addressesOf(change.object) : [],
    );
    expect(slices).toHaveLength(50);
    expect(new Set(all).size).toBe(5_000);
    expect(all.filter((address) => !prefixContains(FAR_HALVES[half], address))).toEqual([]);
  }
});

test('every Service has an address, and every endpoint, of its own', () => {
  const changes = [...measuredObjects(), ...otherObjects(0, 10_000), ...lastObjects()];
  const objects = changes.flatMap((change) =>
    change.type === 'put' ? [change.object as ApiObject] : [],
  );
  const services = objects.filter(({ kind }) => kind === 'Service');
  const clusterIps = services.map((object) => (object['spec'] as { clusterIP: string }).clusterIP);
  expect(new Set(clusterIps).size).toBe(10_004);
  const others = Array.from({ length: 10_000 }, (_, number) => addressesOf(otherSlice(number, 0)));
  expect(new Set(others.flat()).size).toBe(100_000);
});

test('every other turn of a slice replaces one endpoint', () => {
  const [before, after, again] = [0, 1, 2].map((turn) => addressesOf(otherSlice(7, turn)));
  expect(after!.filter((address) => !before!.includes(address))).toHaveLength(1);
  expect(again).toEqual(before);
});
