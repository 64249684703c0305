// SPDX-License-Identifier: Apache-2.0
// The file in which an agent keeps what the next one needs: ports of the port map, and addresses that it has added. It is a
// convenience: what cannot be read is nothing, and what cannot be written is said once.
import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import { reasonOf } from '../../../errors.ts';
import type { Logger } from '../../../log.ts';
import { type PortMap, portMapOf } from '../listeners/port-map.ts';

export interface Remembered {
  readonly ports: PortMap;
  /** On the loopback device. */
  readonly addresses: ReadonlySet<string>;
}

export interface Memory {
  read(): Remembered;
  /** Nothing if it has not changed. False: it could not be written. */
  write(remembered: Remembered): boolean;
}

export function createMemory(path: string, log: Pick<Logger, 'warn'>): Memory {
  let written = '';
  let isWarned = false;
  return {
    read() {
      try {
        const value: unknown = JSON.parse(readFileSync(path, 'utf8'));
        return rememberedOf(value);
      } catch {
        return { ports: new Map(), addresses: new Set() };
      }
    },
    write({ ports, addresses }) {
      const sorted = [...ports].sort(([a], [b]) => (a < b ? -1 : 1));
      const text = `${JSON.stringify({ ports: Object.fromEntries(sorted), addresses: [...addresses].sort() })}\n`;
      if (text === written) return true;
      try {
        writeFileSync(`${path}.new`, text, { mode: 0o600 });
        renameSync(`${path}.new`, path);
        written = text;
        return true;
      } catch (error) {
        if (!isWarned) log.warn({ path, reason: reasonOf(error) }, 'ports are not remembered');
        isWarned = true;
        return false;
      }
    },
  };
}

function rememberedOf(value: unknown): Remembered {
  const { ports, addresses } = Object(value) as { ports?: unknown; addresses?: unknown };
  const texts = Array.isArray(addresses) ? addresses : [];
  return {
    ports: portMapOf(ports),
    addresses: new Set(texts.filter((text): text is string => typeof text === 'string')),
  };
}
