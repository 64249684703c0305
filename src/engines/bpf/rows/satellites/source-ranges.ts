// SPDX-License-Identifier: Apache-2.0
// fl_range, written by range-registry.ts: the sources that may use the frontends of a service port, and those that are pods. New ranges are
// there before the frontends that need them, old ones go after the last: while ranges change, a source that is in
// neither the old nor the new ones is never admitted, and one that is in both never dropped.
import { FAMILIES } from '../../../../model/types.ts';
import type { Plan, ServicePortPlan } from '../../../../plan/types.ts';
import type { FailedEntry } from '../../../dataplane.ts';
import { hasSourceRanges } from '../../layout/layout.ts';
import { writeFailure } from '../../state/failure.ts';
import type { Ledger, PortRecord } from '../../state/ledger.ts';
import type { PreparedPort } from '../service-port/update.ts';
import {
  heldKind,
  isHeld,
  PODS,
  putRanges,
  retireRange,
  takeBack,
  type WantedRange,
} from './range-registry.ts';
import { refusePort, type Satellite, type Sync } from './sync.ts';

export const SOURCE_RANGES: Satellite = {
  put(sync) {
    const asked = sync.prepared.flatMap((prepared) =>
      missingRanges(sync, prepared).map((range) => ({ prepared, range })),
    );
    if (asked.length > 0) putAsked(sync, asked);
  },
  remove({ ledger, touched }) {
    for (const [record, port] of touched) {
      if (record.ranges.length > 0) retireUnwanted(ledger, record, port);
    }
  },
};

/**
 * The longest range that contains a source decides, so ranges that deny are inside one that allows all. They come first
 * here, and go last: see above.
 */
function rangesOf(port: ServicePortPlan | undefined): readonly PortRange[] {
  if (port?.sources === undefined) return [];
  const { policy, ranges } = port.sources;
  if (policy === 'allow') return ranges.map((prefix) => ({ kind: 'allowed', prefix }));
  const everyone = port.family === 'IPv4' ? '0.0.0.0/0' : '::/0';
  return [
    ...ranges.map((prefix) => ({ kind: 'denied', prefix }) as const),
    { kind: 'allowed', prefix: everyone },
  ];
}

type PortRange = Pick<WantedRange, 'kind' | 'prefix'>;

function missingRanges(
  { ledger, touched }: Sync,
  { record }: PreparedPort,
): readonly WantedRange[] {
  const { serviceId } = record;
  return rangesOf(touched.get(record))
    .map((range) => ({ ...range, serviceId, owner: record }))
    .filter((range) => !isHeld(ledger, range));
}

interface Asked {
  readonly prepared: PreparedPort;
  readonly range: WantedRange;
}

/** A port gets all its ranges or is left as it was. */
function putAsked(sync: Sync, asked: readonly Asked[]): void {
  const { ledger } = sync;
  const before = asked.map(({ range }) => heldKind(ledger, range));
  const refusedAt = putRanges(
    ledger,
    asked.map(({ range }) => range),
  );
  const failed = new Map<PreparedPort, string>();
  for (const [index, { prepared }] of asked.entries()) {
    const refusal = refusedAt.get(index);
    if (refusal !== undefined) failed.set(prepared, refusal.code);
  }
  const undone = [...asked.entries()].filter(([, { prepared }]) => failed.has(prepared));
  for (const [index, { range }] of undone) {
    if (before[index] === undefined) takeBack(ledger, range);
  }
  for (const [index, { range }] of undone) {
    const kind = before[index];
    if (kind !== undefined) putRanges(ledger, [{ ...range, kind }]);
  }
  for (const [prepared, code] of failed) {
    refusePort(sync, prepared, writeFailure(ledger.tables.sourceRange.name, code));
  }
}

/** A frontend that could not be removed, or that is to be moved, keeps the ranges it has. */
function retireUnwanted(
  ledger: Ledger,
  record: PortRecord,
  port: ServicePortPlan | undefined,
): void {
  const isNeeded = record.frontends.some(({ id }) =>
    hasSourceRanges(ledger.caches.frontend.value(id)),
  );
  if (isNeeded && port?.sources === undefined) return;
  const wanted = new Set((isNeeded ? rangesOf(port) : []).map(({ prefix }) => prefix));
  for (const range of record.ranges) {
    if (!wanted.has(range.prefix)) retireRange(ledger, range);
  }
}

/** The CIDRs of the local detector, so that programs can tell pods by their address. */
export function applyDetector(
  ledger: Ledger,
  { detector }: Pick<Plan, 'detector'>,
): readonly FailedEntry[] {
  const cidrs = FAMILIES.flatMap((family) => {
    const known = detector[family];
    return known?.kind === 'cidr' ? [known.cidr] : [];
  });
  const wanted = cidrs
    .map((prefix): WantedRange => ({ kind: 'pod', serviceId: PODS, prefix, owner: undefined }))
    .filter((range) => !isHeld(ledger, range));
  const refused = wanted.length === 0 ? [] : [...putRanges(ledger, wanted)];
  for (const range of ledger.podRanges) {
    if (!cidrs.includes(range.prefix)) retireRange(ledger, range);
  }
  return refused.map(([index, { code }]) => {
    const prefix = wanted[index]?.prefix ?? '';
    return {
      id: { kind: 'source-range', prefix, port: undefined },
      text: `range of pods ${prefix}`,
      ...writeFailure(ledger.tables.sourceRange.name, code, 'its pods count as outside'),
    };
  });
}
