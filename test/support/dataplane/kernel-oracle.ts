// SPDX-License-Identifier: Apache-2.0
// Compares the kernel with the model, through a running agent that reads its maps.
import { expect } from 'vitest';
import { askAgent } from '../fixture/proxies/ask-agent.ts';
import { expectedFrontends, type Model } from '../model.ts';

export interface FrontendRow {
  readonly frontend: string;
  readonly kernel: readonly string[];
  readonly kernelState: string;
}

interface BackendRow {
  readonly backend: string;
  readonly isDesired: boolean;
  readonly kernelState: string;
}

/** As `expectedFrontends` writes them. */
export const frontendsOf = (rows: readonly FrontendRow[]): Record<string, string> =>
  Object.fromEntries(rows.map(({ frontend, kernel }) => [frontend, [...kernel].sort().join(' ')]));

/** Every frontend with its backends, every backend, and no other. */
export async function expectKernel(runDir: string, model: Model): Promise<void> {
  const rows = (await askAgent(runDir, '/v1/services')) as FrontendRow[];
  const wanted = expectedFrontends(model);
  expect(frontendsOf(rows)).toEqual(wanted);
  expect(rows.filter(({ kernelState }) => kernelState !== 'ok')).toEqual([]);
  const backends = (await askAgent(runDir, '/v1/backends')) as BackendRow[];
  expect(backends.filter(({ kernelState }) => kernelState !== 'ok')).toEqual([]);
  const held = backends.filter(({ isDesired }) => isDesired).map(({ backend }) => backend);
  const texts = Object.values(wanted).flatMap((text) => text.split(' '));
  expect(held.sort()).toEqual(texts.filter((text) => text !== '').sort());
}
