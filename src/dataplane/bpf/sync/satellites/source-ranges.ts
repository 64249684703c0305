// SPDX-License-Identifier: Apache-2.0
// fl_range: the sources that may use the frontends of a service port, and those that are pods. New ranges are
// there before the frontends that need them, old ones go after the last: while ranges change, a source that is in
// neither the old nor the new ones is never admitted, and one that is in both never dropped.
import { FAMILIES } from '../../../../model/types.ts';
import type { Plan, ServicePortPlan } from '../../../../plan/types.ts';
import type { FailedEntry } from '../../../dataplane.ts';
import { hasSourceRanges } from '../../maps/layout.ts';
import { writeFailure } from '../failure.ts';
import type { Ledger, PortRecord } from '../ledger.ts';
import type { PreparedPort } from '../service-port/update.ts';
import {
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

/** Of a port: all its frontends that have ranges have the same; undefined: none has. */
const rangesOf = (port: ServicePortPlan | undefined): readonly string[] | undefined =>
  port?.frontends.find(({ sourceRanges }) => sourceRanges !== undefined)?.sourceRanges;

function missingRanges(
  { ledger, touched }: Sync,
  { record }: PreparedPort,
): readonly WantedRange[] {
  const { serviceId } = record;
  return (rangesOf(touched.get(record)) ?? [])
    .map((prefix) => ({ serviceId, prefix, owner: record }))
    .filter((range) => !isHeld(ledger, range));
}

interface Asked {
  readonly prepared: PreparedPort;
  readonly range: WantedRange;
}

/** A port gets all its ranges or is left as it was. */
function putAsked(sync: Sync, asked: readonly Asked[]): void {
  const { ledger } = sync;
  const refusedAt = putRanges(
    ledger,
    asked.map(({ range }) => range),
  );
  const failed = new Map<PreparedPort, string>();
  for (const [index, { prepared }] of asked.entries()) {
    const refusal = refusedAt.get(index);
    if (refusal !== undefined) failed.set(prepared, refusal.code);
  }
  for (const { prepared, range } of asked) {
    if (failed.has(prepared)) takeBack(ledger, range);
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
  const wanted = isNeeded ? rangesOf(port) : [];
  if (wanted === undefined) return;
  for (const range of record.ranges) {
    if (!wanted.includes(range.prefix)) retireRange(ledger, range);
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
    .map((prefix) => ({ serviceId: PODS, prefix, owner: undefined }))
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
