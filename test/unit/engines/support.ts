// SPDX-License-Identifier: Apache-2.0
// Dataplanes that exist in tests alone: one that does packets, one that does all, and any of them
// programmed in memory with a journal of what it has after each sync.
import {
  BPF,
  type Capabilities,
  type PositionCapabilities,
} from '../../../src/engines/capabilities.ts';
import type { Dataplane, FailedEntry, SyncReport } from '../../../src/engines/dataplane.ts';
import { frontendEntry, frontendText } from '../../../src/engines/entry.ts';
import type { Plan, ServicePlan } from '../../../src/plan/types.ts';

export const PACKETS: Capabilities = {
  ...BPF,
  dataplane: 'tc',
  serves: { pod: undefined, host: undefined, outside: BPF.serves.pod },
};

const EVERYTHING: PositionCapabilities = {
  protocols: ['TCP', 'UDP', 'SCTP'],
  hasSourceRanges: true,
  hasMasquerade: true,
};

export const LAST_RESORT: Capabilities = {
  dataplane: 'iptables',
  families: ['IPv4', 'IPv6'],
  serves: { pod: EVERYTHING, host: EVERYTHING, outside: EVERYTHING },
  changesSctpPorts: true,
  keepsLocalClients: false,
  countsConnections: false,
  knowsNode: true,
  canBypass: false,
  affinityClients: 100,
  algorithms: ['random'],
  directReturn: false,
};

/** `web 10.96.0.10:80/TCP`, and `web 10.96.0.10:*` for the refusal of the other ports. */
export const linesOf = (service: ServicePlan): readonly string[] =>
  service.ports.flatMap(({ family, protocol, frontends, refusesOtherPortsOf }) => [
    ...frontends.map(
      ({ address, port }) => `${service.name} ${frontendText({ family, address, port, protocol })}`,
    ),
    ...(refusesOtherPortsOf === undefined ? [] : [`${service.name} ${refusesOtherPortsOf}:*`]),
  ]);

export const planLines = (plan: Plan): readonly string[] =>
  [...plan.services.values()].flatMap(linesOf);

export interface FakeDataplane extends Dataplane {
  /** What is programmed. */
  lines(): readonly string[];
  /** What the next sync does instead of its work. */
  failure: 'none' | 'entries' | 'throws';
  isClosed: boolean;
  tellRoom(): void;
}

/** @param journal gets `tc: web 10.96.0.10:80/TCP, ..` after each sync that changed something */
export function fakeDataplane(capabilities: Capabilities, journal: string[] = []): FakeDataplane {
  const held = new Map<string, readonly string[]>();
  let tellRoom = (): void => undefined;
  const lines = () => [...held.values()].flat().sort();
  const failed = (service: string): FailedEntry => ({
    ...frontendEntry({ family: 'IPv4', address: '10.96.0.1', port: 1, protocol: 'TCP' }),
    ...{ code: 'WRITE_FAILED', reason: capabilities.dataplane, service },
  });
  const fake: FakeDataplane = {
    capabilities,
    installation: {
      hooks: [{ name: capabilities.dataplane, isAdopted: false, insns: 1 }],
      ...{ refusesWith: 'ECONNREFUSED', cgroupRoot: '/cg', bpfRoot: '/bpf', refused: [] },
    },
    failure: 'none',
    isClosed: false,
    lines,
    async sync(plan, changed) {
      if (fake.failure === 'throws') throw new Error(`${capabilities.dataplane} is broken`);
      const keys = changed === 'all' ? [...held.keys(), ...plan.services.keys()] : [...changed];
      if (fake.failure === 'entries') return report(0, keys.map(failed));
      const before = lines().join(', ');
      for (const key of keys) {
        const service = plan.services.get(key);
        if (service === undefined) held.delete(key);
        else held.set(key, linesOf(service));
      }
      const after = lines().join(', ');
      if (before !== after) journal.push(`${capabilities.dataplane}: ${after}`);
      return report(keys.length, []);
    },
    async audit(plan, addresses) {
      const { dataplane } = capabilities;
      const drift = [{ id: { kind: 'dataplane', dataplane } as const, text: dataplane }];
      return { drift, report: await fake.sync(plan, 'all', addresses) };
    },
    held: async () => [],
    snapshot: async () => ({ frontends: [], backends: [] }),
    counters: () => ({
      tables: [{ name: capabilities.dataplane, used: held.size, capacity: 9 }],
      outcomes: { translated: 1 },
      connections: [],
    }),
    onRoom: (listener) => {
      tellRoom = listener;
    },
    tellRoom: () => tellRoom(),
    close: () => {
      fake.isClosed = true;
    },
  };
  return fake;
}

const report = (applied: number, failed: readonly FailedEntry[]): SyncReport => ({
  applied,
  failed,
  elapsedMs: 1,
});

/** The same dataplane, as one that can do other things. */
export const withCapabilities = (dataplane: Dataplane, capabilities: Capabilities): Dataplane => ({
  capabilities,
  installation: dataplane.installation,
  sync: (plan, changed, addresses) => dataplane.sync(plan, changed, addresses),
  audit: (plan, addresses) => dataplane.audit(plan, addresses),
  async held() {
    return [...(await dataplane.held())].map((frontend) => ({
      ...frontend,
      dataplane: capabilities.dataplane,
    }));
  },
  async snapshot() {
    const { frontends, backends } = await dataplane.snapshot();
    const named = <T>(views: readonly T[]) =>
      views.map((view) => ({ ...view, dataplane: capabilities.dataplane }));
    return { frontends: named(frontends), backends: named(backends) };
  },
  counters: () => dataplane.counters(),
  onRoom: (listener) => dataplane.onRoom(listener),
  close: () => dataplane.close(),
});
