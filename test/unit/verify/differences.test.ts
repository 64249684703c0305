// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from 'vitest';
import { BPF } from '../../../src/engines/capabilities.ts';
import type { FrontendView } from '../../../src/engines/snapshot.ts';
import type { ObjectChange } from '../../../src/model/types.ts';
import { createPlanner } from '../../../src/plan/planner.ts';
import { type Differences, differencesInSteps } from '../../../src/verify/differences.ts';
import { PACKETS } from '../engines/support.ts';
import { ready, SETTINGS, service, slice } from '../plan/support.ts';

const planOf = (...changes: readonly ObjectChange[]) => createPlanner(SETTINGS).apply(changes);

const POD = '10.1.0.1:8080';
const PLAN = planOf(
  service('web', 1),
  slice('web', [ready('10.1.0.1')]),
  service('dns', 2, { sessionAffinity: 'ClientIP' }),
);

/** What is programmed for a Service of the plan. */
const view = (
  name: string,
  number: number,
  backends: readonly string[],
  patch: Partial<FrontendView> = {},
): FrontendView => ({
  ...{ dataplane: 'bpf', internalEmpty: 'reject', externalEmpty: 'reject', affinitySeconds: 0 },
  id: { family: 'IPv4', address: `10.96.0.${number}`, port: 80, protocol: 'TCP' },
  port: { namespace: 'default', name, portName: 'http', protocol: 'TCP', family: 'IPv4' },
  ...{ internal: backends, external: backends },
  ...patch,
});

const WEB = view('web', 1, [POD]);
const DNS = view('dns', 2, [], { affinitySeconds: 10_800 });

function found(views: readonly FrontendView[], dataplanes = [BPF], plan = PLAN): object {
  const steps = differencesInSteps({ plan, views, dataplanes });
  for (;;) {
    const step = steps.next();
    if (step.done === true) return Object.fromEntries<string>(step.value as Differences);
  }
}

const difference = (what: string, service = 'default/web'): object => ({ [service]: what });
const AT = 'IPv4 frontend 10.96.0.1:80/TCP';

describe('differences', () => {
  test('none', () => {
    expect(found([WEB, DNS])).toEqual({});
    expect(found([], [BPF], planOf())).toEqual({});
  });

  test('a frontend that is missing, and one that no Service has', () => {
    expect(found([DNS])).toEqual(difference(`${AT} is missing`));
    expect(found([WEB, DNS, view('old', 9, [])])).toEqual(
      difference(
        'IPv4 frontend 10.96.0.9:80/TCP is programmed, but no Service has it',
        'default/old',
      ),
    );
  });

  test('backends that are missing, or too many, for clients here or outside', () => {
    const other = '10.1.0.2:8080';
    for (const side of ['internal', 'external'])
      expect(found([{ ...WEB, [side]: [other] }, DNS])).toEqual(
        difference(`${AT} has other backends: lacks ${POD}; has too many ${other}`),
      );
    expect(found([view('web', 1, [POD, POD]), DNS])).toEqual(
      difference(`${AT} has other backends: one of them twice`),
    );
  });

  test('of many backends the first are named', () => {
    const others = Array.from({ length: 7 }, (_, index) => `10.1.1.${index}:8080`);
    expect(found([view('web', 1, [POD, ...others]), DNS])).toEqual(
      difference(
        `${AT} has other backends: has too many ${others.slice(0, 5).join(', ')} + 2 more...`,
      ),
    );
  });

  test('two Services that were exchanged, with backends that are alike', () => {
    const port = { ...WEB.port, name: 'dns' };
    expect(found([{ ...WEB, port }, DNS])).toEqual(difference(`${AT} belongs to default/dns`));
    const other = { ...WEB.port, portName: 'https' };
    expect(found([{ ...WEB, port: other }, DNS])).toEqual(
      difference(`${AT} belongs to default/web`),
    );
  });

  test('session affinity of another time', () => {
    expect(found([WEB, { ...DNS, affinitySeconds: 0 }])).toEqual(
      difference(
        'IPv4 frontend 10.96.0.2:80/TCP has session affinity of 0 s, not 10800 s',
        'default/dns',
      ),
    );
  });

  test('what another engine has beside the one that serves', () => {
    expect(found([WEB, DNS, { ...WEB, dataplane: 'iptables' }], [BPF, PACKETS])).toEqual(
      difference(`${AT} is programmed by an engine that is not to serve it`),
    );
  });
});
