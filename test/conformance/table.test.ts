// SPDX-License-Identifier: Apache-2.0
// table.txt, cell by cell: frontend kind x policy x family x protocol x client x state of endpoints.
// An empty cell fails, unless it is listed here as meaningless.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { FrontendKind } from '../../src/model/types.ts';
import { explain } from '../../src/plan/explain/explain.ts';
import {
  ADDRESSES,
  CLIENTS,
  KINDS,
  objectsOf,
  POLICIES,
  type Policy,
  STATES,
  VARIANTS,
  type Variant,
} from '../support/fixture/stories/table-states.ts';
import { buildAll } from '../support/plan/build-all.ts';
import { fixture } from './story.ts';

/** Cells without a meaning, as `class policy client state`: there are none. */
const NOT_APPLICABLE: ReadonlySet<string> = new Set();

interface Cell {
  readonly outcome: string;
  readonly isMasqueraded: boolean;
}

function readTable(): ReadonlyMap<string, Cell> {
  const text = readFileSync(join(import.meta.dirname, 'table.txt'), 'utf8');
  const [header = [], ...rows] = text
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('#'))
    .map((line) => line.split(/\s+/));
  const cells = new Map<string, Cell>();
  for (const [kind, policy, client, snat, ...outcomes] of rows) {
    for (const [index, outcome] of outcomes.entries()) {
      const key = [kind, policy, client, header[index + 4]].join(' ');
      expect(cells.has(key), `${key} is stated twice`).toBe(false);
      cells.set(key, { outcome, isMasqueraded: snat === 'yes' });
    }
  }
  return cells;
}

function checkCell(kind: FrontendKind, policy: Policy, what: Variant, cell: Cell): void {
  const { family, protocol, client } = what;
  const at = ADDRESSES[family];
  const plan = buildAll(objectsOf(kind, policy, what), fixture.settings);
  const met = explain(plan, {
    source: at[client],
    protocol,
    destination: at[kind],
    destinationPort: kind === 'NodePort' ? 30080 : 80,
  });
  const isForward = /^[AB]+$/.test(cell.outcome);
  const text = (name: string): string => {
    const address = at[name as 'A' | 'B'];
    return family === 'IPv6' ? `[${address}]:8080` : `${address}:8080`;
  };
  expect(
    { verdict: met.verdict, backends: met.backends, masquerade: met.masquerade },
    `${kind} ${policy} ${JSON.stringify(what)}`,
  ).toEqual({
    verdict: isForward ? 'forward' : cell.outcome,
    backends: isForward ? [...cell.outcome].map(text) : [],
    masquerade: isForward && cell.isMasqueraded,
  });
}

describe('table.txt', () => {
  const table = readTable();
  for (const kind of KINDS) {
    for (const policy of POLICIES) {
      it(`${kind} with policy ${policy}: every family, protocol, client and state of endpoints`, () => {
        for (const what of VARIANTS) {
          const row = kind === 'ClusterIP' ? kind : 'external';
          const key = [row, policy, what.client, what.state].join(' ');
          if (NOT_APPLICABLE.has(key)) continue;
          const cell = table.get(key);
          if (cell === undefined) throw new Error(`table.txt has no cell for ${key}`);
          checkCell(kind, policy, what, cell);
        }
      });
    }
  }

  it('has only cells of the product of kinds, policies, clients and states', () => {
    const known = ['ClusterIP', 'external'].flatMap((row) =>
      POLICIES.flatMap((policy) =>
        CLIENTS.flatMap((client) => STATES.map((state) => [row, policy, client, state].join(' '))),
      ),
    );
    expect([...table.keys()].sort()).toEqual(known.sort());
  });
});
