// SPDX-License-Identifier: Apache-2.0
// The full check: compares the kernel with the ledger and the cache. Every difference is reported and removed
// from the ledger, so that the next apply writes it anew; a damaged set or backend is never repaired in place
// but replaced by a new one. Reads Tables; deletes only frontends and source ranges without an owner.
import { FAMILIES, type Family } from '../../../model/types.ts';
import { type Entry, frontendEntry, frontendText } from '../../entry.ts';
import {
  decodeFrontendKey,
  decodeRangeKey,
  decodeU32,
  encodeServiceName,
  encodeU32,
  rangeFamily,
  type SourceRangeKey,
} from '../layout/layout.ts';
import { nameOf } from '../layout/names.ts';
import { forgetRange, PODS, rangeIdOf, rangeValueOf } from '../rows/satellites/range-registry.ts';
import { SATELLITES } from '../rows/satellites/satellites.ts';
import { digestOf } from '../rows/service-port/lookup-content.ts';
import { readEntries, readRun } from '../rows/service-port/runs.ts';
import { isEqual } from '../rows/service-port/sets.ts';
import { forgetFrontend } from '../rows/service-port/update.ts';
import {
  allPorts,
  baseBlock,
  frontendIdOf,
  frontendOf,
  type Ledger,
  type PortRecord,
  type SetRecord,
  type SourceRange,
  tableBlock,
} from './ledger.ts';
import { element } from './tables.ts';

const isSame = (a: Uint8Array, b: Uint8Array): boolean =>
  a.length === b.length && a.every((byte, index) => byte === b[index]);

/**
 * What differs, each text like `frontend 10.96.0.10:80/TCP of default/web:http/TCP/IPv4 is missing`, in steps of
 * well under a millisecond, between which the event loop may run but nothing else may write to the ledger.
 */
export function* findDrift(ledger: Ledger): Generator<readonly Entry[]> {
  for (const port of allPorts(ledger)) {
    yield [...auditName(ledger, port), ...auditSets(ledger, port), ...auditBackends(ledger, port)];
    yield SATELLITES.flatMap((satellite) => satellite.audit?.(ledger, port) ?? []);
  }
  for (const family of FAMILIES) {
    const seen = new Set<string>();
    yield* auditHeld(ledger, family, seen);
    yield* auditMissing(ledger, family, seen);
  }
  yield auditRanges(ledger);
}

/** In one step: ranges that are retired may be deleted between two. */
function auditRanges(ledger: Ledger): readonly Entry[] {
  const table = ledger.tables.sourceRange;
  const seen = new Set<string>();
  const drift: Entry[] = [];
  for (const { key, value } of table.readAll()) {
    const id = rangeIdOf(key);
    seen.add(id);
    const known = ledger.sourceRanges.get(id);
    if (known === undefined) {
      table.delete([key]);
      drift.push(rangeEntry(decodeRangeKey(key, rangeFamily(value)), 'belongs to no Service'));
    } else if (!isSame(rangeValueOf(known), value)) {
      forgetRange(ledger, known);
      drift.push(rangeEntry(known, 'differs'));
    }
  }
  for (const [id, range] of ledger.sourceRanges) {
    if (seen.has(id)) continue;
    forgetRange(ledger, range);
    drift.push(rangeEntry(range, 'is missing'));
  }
  return drift;
}

function rangeEntry(range: SourceRangeKey & Partial<SourceRange>, what: string): Entry {
  const { serviceId, prefix, owner } = range;
  const whose = owner?.key ?? (serviceId === PODS ? 'pods' : `service id ${serviceId}`);
  return {
    id: { kind: 'source-range', prefix, port: owner?.key },
    text: `source range ${prefix} of ${whose} ${what}`,
  };
}

function auditName(ledger: Ledger, port: PortRecord): readonly Entry[] {
  const key = encodeU32(port.serviceId);
  const wanted = encodeServiceName(nameOf(port.key));
  const held = ledger.tables.serviceName.get(key);
  if (held !== undefined && isSame(held, wanted)) return [];
  ledger.tables.serviceName.put([key], [wanted]);
  const text = `name of service id ${port.serviceId} (${port.key}) ${held ? 'differs' : 'is missing'}`;
  return [{ id: { kind: 'service-port', port: port.key }, text }];
}

function auditSets({ tables }: Ledger, port: PortRecord): readonly Entry[] {
  const drift: Entry[] = [];
  for (const set of port.sets) {
    const { block, members } = set;
    const run = readRun(tables.slotBlock, block, members.length);
    if (
      hasSameTable(tables, set) &&
      hasSameBase(tables, set) &&
      isEqual(run, [port.serviceId, ...members])
    )
      continue;
    const text = `set at block ${block} of ${port.key} differs`;
    drift.push({ id: { kind: 'set', port: port.key }, text });
    set.isDamaged = true;
  }
  return drift;
}

function hasSameTable({ slotBlock }: Ledger['tables'], set: SetRecord): boolean {
  const { table, lookup } = set;
  const entries = lookup?.entries ?? table.length;
  if (entries === 0) return true;
  const first = tableBlock(set);
  if (lookup === undefined) return isEqual(readRun(slotBlock, first, entries), [entries, ...table]);
  const [length] = readRun(slotBlock, first, 0);
  return length === entries && digestOf(readEntries(slotBlock, first, entries)) === lookup.digest;
}

function hasSameBase({ slotBlock }: Ledger['tables'], set: SetRecord): boolean {
  const { base } = set;
  if (base === undefined) return true;
  const first = baseBlock(set);
  const [length] = readRun(slotBlock, first, 0);
  return length === base.entries && digestOf(readEntries(slotBlock, first, length)) === base.digest;
}

/** A damaged one is no longer found by its key; it becomes GONE once no set has its id. */
function auditBackends(ledger: Ledger, port: PortRecord): readonly Entry[] {
  const table = ledger.tables.backend[port.family];
  const cache = ledger.caches.backend[port.family];
  const drift: Entry[] = [];
  for (const id of port.backends) {
    if (cache.isSame(id, table.view(id), table.offset(id))) continue;
    const backend = cache.text(id);
    const text = `backend ${backend} (id ${id}) of ${port.key} differs`;
    drift.push({ id: { kind: 'backend', family: port.family, backend }, text });
    ledger.damagedBackends.add(id);
  }
  return drift;
}

/** True if the key leads to the frontend's id, and its element is what was written. */
function isInKernel({ tables, caches }: Ledger, id: number, ref: Uint8Array): boolean {
  if (decodeU32(ref) !== id) return false;
  return isSame(caches.frontend.value(id), element(tables.frontendRecord, id));
}

/** @param seen gets the text of each frontend that the kernel holds */
function* auditHeld(
  ledger: Ledger,
  family: Family,
  seen: Set<string>,
): Generator<readonly Entry[]> {
  const table = ledger.tables.frontend[family];
  for (const { key, value } of table.readAll()) {
    const id = decodeFrontendKey(key, family);
    const text = frontendText(id);
    seen.add(text);
    const owner = ledger.owners[family].get(text);
    const frontend = owner && frontendOf(owner, text);
    if (owner === undefined || frontend === undefined) {
      table.delete([key]);
      yield [frontendEntry(id, ' belongs to no Service')];
    } else if (!isInKernel(ledger, frontend.id, value)) {
      forgetFrontend(ledger, owner, text);
      yield [frontendEntry(id, ` of ${owner.key} differs`)];
    } else {
      yield [];
    }
  }
}

function* auditMissing(
  ledger: Ledger,
  family: Family,
  seen: ReadonlySet<string>,
): Generator<readonly Entry[]> {
  for (const port of allPorts(ledger)) {
    if (port.family !== family) continue;
    for (const frontend of port.frontends) {
      if (seen.has(frontend.text)) continue;
      const entry = frontendEntry(
        frontendIdOf(ledger, port, frontend),
        ` of ${port.key} is missing`,
      );
      forgetFrontend(ledger, port, frontend.text);
      yield [entry];
    }
    yield [];
  }
}
