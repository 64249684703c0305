// SPDX-License-Identifier: Apache-2.0
// The slow full check: what the kernel really holds against what we believe it holds. Every
// difference is told in words and forgotten from the ledger, so that the next apply writes it anew;
// a damaged set or backend is never mended in place but replaced and flipped to.
// Floor 3a: reads Tables; the only writes are deletes of frontends that belong to nobody.

import { hostPort } from '../../lib/address-bytes.ts';
import type { Family } from '../../model/types.ts';
import {
  decodeBackend,
  decodeFrontendKey,
  encodeServiceName,
  encodeU32,
  SLOTS_PER_LINE,
} from './layout.ts';
import { allPorts, type Ledger, linesOf, ownerKey, type PortRecord } from './ledger.ts';
import { nameOf } from './names.ts';
import { forgetFrontend } from './port-update.ts';
import { frontendText } from './render.ts';
import { element } from './tables.ts';

const FAMILIES: readonly Family[] = ['IPv4', 'IPv6'];

const isSame = (a: Uint8Array, b: Uint8Array): boolean =>
  a.length === b.length && a.every((byte, index) => byte === b[index]);

/** @returns one line per difference, e.g. `frontend 10.96.0.10:80/TCP of default/web:http/TCP/IPv4 is missing` */
export function findDrift(ledger: Ledger): readonly string[] {
  const drift: string[] = [];
  for (const port of allPorts(ledger)) {
    drift.push(
      ...auditName(ledger, port),
      ...auditSets(ledger, port),
      ...auditBackends(ledger, port),
    );
  }
  for (const family of FAMILIES) drift.push(...auditFrontends(ledger, family));
  return drift;
}

function auditName(ledger: Ledger, port: PortRecord): readonly string[] {
  const key = encodeU32(port.serviceId);
  const wanted = encodeServiceName(nameOf(port.key));
  const held = ledger.tables.serviceName.get(key);
  if (held !== undefined && isSame(held, wanted)) return [];
  ledger.tables.serviceName.put([key], [wanted]);
  return [`name of service id ${port.serviceId} (${port.key}) ${held ? 'differs' : 'is missing'}`];
}

function auditSets(ledger: Ledger, port: PortRecord): readonly string[] {
  const { setLine } = ledger.tables;
  const drift: string[] = [];
  for (const set of port.sets) {
    const at = setLine.bytes.byteOffset + set.line * setLine.elementSize;
    const length = linesOf(set.members) * SLOTS_PER_LINE;
    const slots = new Uint32Array(setLine.bytes.buffer, at, length);
    if (set.members.every((id, index) => slots[index] === id)) continue;
    drift.push(`set at line ${set.line} of ${port.key} differs`);
    set.isDamaged = true;
  }
  return drift;
}

function auditBackends(ledger: Ledger, port: PortRecord): readonly string[] {
  const table = ledger.tables.backend[port.family];
  const drift: string[] = [];
  for (const [key, backend] of [...port.backends]) {
    const held = decodeBackend(element(table, backend.id), port.family);
    const isIntact =
      hostPort(held.address, held.port) === key &&
      held.serviceId === port.serviceId &&
      held.generation === backend.generation &&
      held.state === backend.state &&
      held.isLocal === backend.isLocal;
    if (isIntact) continue;
    drift.push(`backend ${key} (id ${backend.id}) of ${port.key} differs`);
    // Under a name no plan has: settled as gone once no set has its id.
    port.backends.delete(key);
    port.backends.set(`${key} damaged id ${backend.id}`, backend);
  }
  return drift;
}

function auditFrontends(ledger: Ledger, family: Family): readonly string[] {
  const drift: string[] = [];
  const table = ledger.tables.frontend[family];
  const seen = new Set<string>();
  for (const { key, value } of table.readAll()) {
    const text = frontendText(decodeFrontendKey(key, family));
    seen.add(text);
    const owner = ledger.owners.get(ownerKey(family, text));
    if (owner === undefined) {
      drift.push(`frontend ${text} belongs to no Service`);
      table.delete([key]);
    } else if (!isSame(owner.frontends.get(text)?.value ?? value.subarray(0, 0), value)) {
      drift.push(`frontend ${text} of ${owner.key} differs`);
      forgetFrontend(ledger, owner, text);
    }
  }
  for (const port of allPorts(ledger)) {
    if (port.family !== family) continue;
    for (const text of [...port.frontends.keys()]) {
      if (seen.has(text)) continue;
      drift.push(`frontend ${text} of ${port.key} is missing`);
      forgetFrontend(ledger, port, text);
    }
  }
  return drift;
}
