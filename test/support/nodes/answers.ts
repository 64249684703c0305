// SPDX-License-Identifier: Apache-2.0
// What each proxy answered, kept for `npm run -s other-nodes`: a line a proxy, in build/test/nodes.
import { appendFileSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { packageRoot } from '../../../src/sys/package.ts';
import { untilHolds } from '../until.ts';
import type { ProxyName } from './proxies.ts';

/** One answer of all proxies, or that of most with those that differ. */
export type Expected = string | ({ readonly all: string } & Partial<Record<ProxyName, string>>);

export const expectedOf = (expected: Expected, proxy: ProxyName): string =>
  typeof expected === 'string' ? expected : (expected[proxy] ?? expected.all);

/** Looks until the answer is as expected, or fails with the last one. */
export async function untilAnswer(
  {
    proxy,
    kind,
    what,
  }: { readonly proxy: ProxyName; readonly kind: string; readonly what: string },
  expected: Expected,
  look: () => Promise<string>,
): Promise<void> {
  const wanted = expectedOf(expected, proxy);
  let seen = '';
  await untilHolds(async () => {
    seen = await look();
    if (seen !== wanted) throw new Error(`${what}: ${seen}, not ${wanted}`);
  });
  const folder = join(packageRoot(), 'build', 'test', 'nodes');
  mkdirSync(folder, { recursive: true });
  appendFileSync(join(folder, `${kind}.tsv`), `${[what, proxy, seen].join('\t')}\n`);
}
