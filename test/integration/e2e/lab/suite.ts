// SPDX-License-Identifier: Apache-2.0
// What every file of scenarios begins and ends with: programs and images, built or found; one cluster for all its tests; the table of
// what they counted.
import { afterAll, beforeAll, describe } from 'vitest';
import type { Binaries } from '../../cluster/programs/binaries.ts';
import type { RealCluster } from '../nodes/nodes.ts';
import { type NodePrograms, prepareNodes } from '../programs.ts';
import { type ProxyImages, prepareProxyImages } from './archives.ts';
import { openResults, type Results } from './results.ts';

export interface Parts {
  readonly binaries: Binaries;
  readonly programs: NodePrograms;
  readonly images: ProxyImages;
}

/** Builds for minutes, where no time-out applies. */
const parts = await prepareParts();

async function prepareParts(): Promise<Parts | undefined> {
  const nodes = await prepareNodes();
  if (!nodes.isReady) return undefined;
  const proxies = await prepareProxyImages(nodes.binaries.kubeProxy);
  return proxies.isReady ? { ...nodes, images: proxies.images } : undefined;
}

/** @param file the name of the test file in the table */
export function describeCluster<T extends RealCluster>(
  what: string,
  file: string,
  open: (parts: Parts) => Promise<T>,
  tests: (cluster: () => T, results: Results) => void,
): void {
  describe.skipIf(parts === undefined)(
    what,
    () => {
      let cluster: T | undefined;
      const results = openResults(file);
      beforeAll(async () => {
        cluster = await open(parts!);
      }, 600_000);
      afterAll(async () => {
        results.save();
        await cluster?.remove();
      });
      tests(() => cluster!, results);
    },
    900_000,
  );
}
