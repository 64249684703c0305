// SPDX-License-Identifier: Apache-2.0
// Which ports Linux gives to connections of this network namespace, and which it never gives.
import { readFileSync } from 'node:fs';
import type { PortRange } from '../lib/port-range.ts';

const RESERVED_PATH = '/proc/sys/net/ipv4/ip_local_reserved_ports';
const PATH = '/proc/sys/net/ipv4/ip_local_port_range';
const DEFAULT: PortRange = { first: 32_768, last: 60_999 };

/** Holds for IPv6 too. The kernel's default if it cannot be read. */
export function localPortRange(path = PATH): PortRange {
  try {
    const [first = NaN, last = NaN] = readFileSync(path, 'utf8').trim().split(/\s+/).map(Number);
    return first > 0 && last >= first ? { first, last } : DEFAULT;
  } catch {
    return DEFAULT;
  }
}

/** net.ipv4.ip_local_reserved_ports, which holds for IPv6 too. Text: `8080,9148-9200`. None if it cannot be read. */
export function reservedPorts(path = RESERVED_PATH): readonly PortRange[] {
  try {
    const parts = readFileSync(path, 'utf8').trim().split(',').filter(Boolean);
    return parts.map((part) => {
      const [first = NaN, last = first] = part.split('-').map(Number);
      return { first, last };
    });
  } catch {
    return [];
  }
}
