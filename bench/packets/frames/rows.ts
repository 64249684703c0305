// SPDX-License-Identifier: Apache-2.0
// What is sent by frames: the rows of the table. Pure.

import { addressBytes } from '../../../src/lib/address-bytes.ts';
import { NODE_ADDRESS, PODS } from '../../../tools/lab/columns/network.ts';
import type { FrameRow } from '../report/frames/figures.ts';
import {
  BACKENDS,
  ENDPOINT_PORT,
  endpointAt,
  FRAME_PORTS,
  firstPort,
  servicesOf,
} from './objects.ts';

export type Order = 'in turn' | 'random' | 'new';
export type Manner = 'sink' | 'answer';
type Protocol = 'TCP' | 'UDP';

/** As in frames.h. */
const ORDERS: readonly Order[] = ['in turn', 'random', 'new'];
const MANNERS: readonly Manner[] = ['sink', 'answer'];
const NUMBERS: Readonly<Record<Protocol, number>> = { TCP: 6, UDP: 17 };

export interface Row extends Pick<FrameRow, 'name' | 'unit' | 'packets'> {
  readonly protocol: Protocol;
  readonly order: Order;
  readonly manner: Manner;
  readonly backend: keyof typeof PODS;
  /** Frames at the servers for one that is made. */
  readonly atServer: number;
}

const UDP = { unit: 'packets', protocol: 'UDP', order: 'random', backend: 'remote' } as const;
const TCP = { protocol: 'TCP', order: 'new', backend: 'remote' } as const;
const ONE_WAY = { manner: 'sink', packets: 1, atServer: 1 } as const;

export const ROWS: readonly Row[] = [
  { name: 'UDP, 64 bytes', ...UDP, ...ONE_WAY },
  { name: 'UDP, 64 bytes, answered', ...UDP, manner: 'answer', packets: 2, atServer: 1 },
  { name: 'UDP, 64 bytes, local backend', ...UDP, ...ONE_WAY, backend: 'local' },
  { name: 'TCP SYNs', ...TCP, ...ONE_WAY, unit: 'packets' },
  // SYN, SYN-ACK, FIN-ACK, FIN-ACK, ACK
  {
    name: 'TCP connections',
    ...TCP,
    unit: 'connections',
    manner: 'answer',
    packets: 5,
    atServer: 3,
  },
];

/** Clients that take turns at one Service, or at thousands: each Service has one at least. */
const flowsOf = (services: number): number => (services === 1 ? 1_024 : 8_192);

export interface Aim {
  readonly flows: number;
  readonly targets: number;
  readonly address: string;
  readonly addressStep: number;
  readonly port: number;
  readonly portStep: number;
}

/** The frontends of all Services with this protocol, or their backends themselves. */
export function aimOf(
  { protocol, backend }: Pick<Row, 'protocol' | 'backend'>,
  services: number,
  isDirect: boolean,
): Aim {
  const flows = flowsOf(services);
  if (isDirect) {
    const to = { flows, port: ENDPOINT_PORT, portStep: 0 };
    if (backend === 'local') return { ...to, targets: 1, address: PODS.local, addressStep: 0 };
    const targets = Math.min(BACKENDS, 10 * services);
    return { ...to, targets, address: endpointAt(0), addressStep: 1 };
  }
  const to = { flows, address: NODE_ADDRESS, addressStep: 0 };
  if (backend === 'local') return { ...to, targets: 1, port: FRAME_PORTS.local, portStep: 0 };
  if (services === 1) return { ...to, targets: 1, port: FRAME_PORTS.remote, portStep: 0 };
  return { ...to, targets: servicesOf(protocol, services), port: firstPort(protocol), portStep: 2 };
}

/** The line that tells feed.c. */
export function taskLine(
  { protocol, order, manner }: Pick<Row, 'protocol' | 'order' | 'manner'>,
  { flows, targets, address, addressStep, port, portStep }: Aim,
): string {
  const number = addressBytes(address, 'IPv4').reduce((sum, byte) => sum * 256 + byte, 0);
  const how = [NUMBERS[protocol], ORDERS.indexOf(order), MANNERS.indexOf(manner), flows, targets];
  return `task ${[...how, number, addressStep, port, portStep].join(' ')}`;
}
