// SPDX-License-Identifier: Apache-2.0
// /proc/net/ip_vs -> frontends and backends. A real server of weight 0 gets no new connections.
import { hostPort } from '../../../lib/address-bytes.ts';
import type { Family } from '../../../model/types.ts';
import { addressOf } from '../ipvs.ts';

const ENDPOINT = String.raw`(\[[0-9a-f:]+\]|[0-9A-F]{8}):([0-9A-F]{4})`;
const SERVER = new RegExp(`^(TCP|UDP|SCTP) +${ENDPOINT} `);
const REAL = new RegExp(String.raw`^ +-> ${ENDPOINT} +\S+ +(\d+) `);

export function ipvsFrontends(
  family: Family,
  table: string,
): ReadonlyMap<string, readonly string[]> {
  const found = new Map<string, string[]>();
  let current: string[] | undefined;
  for (const line of table.split('\n')) {
    const real = REAL.exec(line);
    if (real !== null) {
      if (real[3] !== '0') current?.push(endpoint(real[1], real[2]));
      continue;
    }
    const [, protocol, address, port] = SERVER.exec(line) ?? [];
    const isOfFamily = address?.startsWith('[') === (family === 'IPv6');
    current = protocol === undefined || !isOfFamily ? undefined : [];
    if (current !== undefined) found.set(`${endpoint(address, port)}/${protocol}`, current);
  }
  return found;
}

const endpoint = (address = '', port = ''): string =>
  hostPort(addressOf(address), Number.parseInt(port, 16));
