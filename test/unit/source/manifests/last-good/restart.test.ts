// SPDX-License-Identifier: Apache-2.0
// An agent that was restarted at any times judges a folder as one that was not.
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { resultOf } from '../../../../../src/lib/steps.ts';
import { countedIn, fill } from '../../../../../src/source/manifests/last-good/contents.ts';
import { chunksOf, recalledInSteps } from '../../../../../src/source/manifests/last-good/format.ts';
import {
  changesOf,
  emptyStore,
  type ManifestStore,
  putFailure,
  putText,
} from '../../../../../src/source/manifests/manifest-store.ts';
import { createPlanner, type TellingPlanner } from '../../../../support/plan/planner.ts';
import { chance, SEED, some } from '../../../../support/random.ts';
import { SETTINGS } from '../../../plan/support.ts';

const FOLDER = '/etc/manifests';

interface Agent {
  store: ManifestStore;
  planner: TellingPlanner;
}

function start(kept?: Buffer): Agent {
  const store = emptyStore();
  const planner = createPlanner(SETTINGS, { onJudged: store.counting.judged });
  const recalled = kept && resultOf(recalledInSteps(kept, FOLDER));
  planner.apply(fill(store, recalled ?? []));
  return { store, planner };
}

const keptBy = ({ store }: Agent): Buffer =>
  Buffer.from([...chunksOf(FOLDER, countedIn(store))].join(''));

/** A text, or what is wrong with a file. */
type Content = string | { readonly unreadable: string };

/** As `refresh` does it. */
function look({ store, planner }: Agent, files: ReadonlyMap<string, Content>): void {
  for (const file of [...store.files.keys()]) if (!files.has(file)) store.files.delete(file);
  for (const [file, content] of files) {
    if (typeof content === 'string') putText(store, file, content);
    else putFailure(store, file, content.unreadable);
  }
  planner.apply(changesOf(store).changes);
}

const web = (n: number, port: string, name: string): string =>
  `apiVersion: v1\nkind: Service\nmetadata: {${name}}\nspec: {clusterIP: 10.96.0.${n}, ports: [${port}]}\n`;

/** Good versions, and one of each slip: a bad value, an unknown field, no name. */
const service = (n: number): fc.Arbitrary<string> =>
  some(
    ...[
      'port: 80',
      'port: 81',
      'port: 8O',
      '{port: 80, nodePort: 99999}',
      '{port: 80, prot: UDP}',
    ].map((port) => web(n, port, `name: s${n}`)),
    web(n, 'port: 82', ''),
  );

const content = (...numbers: readonly number[]): fc.Arbitrary<Content> =>
  fc.oneof(
    { weight: 6, arbitrary: fc.tuple(...numbers.map(service)).map((texts) => texts.join('---\n')) },
    { weight: 1, arbitrary: some<Content>('kind: [', '', { unreadable: 'EACCES' }) },
  );

const change = (file: string, contents: fc.Arbitrary<Content>) =>
  fc.record({
    file: fc.constant(file),
    content: fc.option(contents, { nil: undefined }),
    isRestarted: chance(40),
  });
const step = fc.oneof(change('a.yaml', content(1, 2)), change('b.yaml', content(3, 4)));

test('the same Services, with the same ports, after each change', () => {
  let restarts = 0;
  fc.assert(
    fc.property(fc.array(step, { maxLength: 12 }), (steps) => {
      const lasting = start();
      let other = start();
      const files = new Map<string, Content>();
      for (const { file, content: put, isRestarted } of steps) {
        if (put === undefined) files.delete(file);
        else files.set(file, put);
        if (isRestarted) other = start(keptBy(other));
        if (isRestarted) restarts += 1;
        for (const agent of [lasting, other]) look(agent, files);
        expect(other.planner.current().services).toEqual(lasting.planner.current().services);
      }
    }),
    { seed: SEED, numRuns: 1_000 },
  );
  expect(restarts).toBeGreaterThan(1_000);
});

const portsOf = ({ planner }: Agent): readonly unknown[] =>
  [...planner.current().services.values()].flatMap(({ name, ports }) =>
    ports.flatMap(({ frontends }) => frontends.map(({ port }) => `${name}:${port}`)),
  );

test('a copy in another file takes the place of the first one, also if it cannot be read after the restart', () => {
  const agent = start();
  const copy = web(1, 'port: 81', 'name: s1');
  look(
    agent,
    new Map([
      ['a.yaml', web(1, 'port: 80', 'name: s1')],
      ['b.yaml', copy],
    ]),
  );
  const next = start(keptBy(agent));
  expect(portsOf(next)).toEqual(['s1:80']);
  look(next, new Map([['b.yaml', 'kind: [']]));
  expect(portsOf(next)).toEqual(['s1:81']);
});
