// SPDX-License-Identifier: Apache-2.0
// What is measured: the rows of the table.
import type { WorkloadName } from './report/figures.ts';
import type { Backend, PacketCall as Call } from './site/traffic.ts';

export interface Workload {
  readonly name: WorkloadName;
  readonly call: Call;
  readonly backend: Backend;
  /** To the pod's own address: no Service's traffic. */
  readonly isDirect: boolean;
  /** Of a sample: rounds of 2,048 datagrams, connections or MiB, for a fifth of a second or less. */
  readonly amount: number;
}

const AMOUNT: Readonly<Record<Call, number>> = { udp: 16, tcp: 1_500, bulk: 512 };

const workload = (call: Call, backend: Backend, isDirect = false): Workload => ({
  name: isDirect ? `${call} no Service` : `${call} ${backend}`,
  ...{ call, backend, isDirect, amount: AMOUNT[call] },
});

export const WORKLOADS: readonly Workload[] = [
  ...[workload('udp', 'local'), workload('udp', 'remote'), workload('udp', 'local', true)],
  ...[workload('tcp', 'local'), workload('tcp', 'remote'), workload('tcp', 'local', true)],
  ...[workload('bulk', 'local'), workload('bulk', 'remote')],
];
