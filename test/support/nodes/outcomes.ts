// SPDX-License-Identifier: Apache-2.0
// What fairlead counts on n1, as Prometheus would see it.
import type { OtherNode } from './other-node.ts';

const SCRAPE = `fetch('http://127.0.0.1:10249/metrics').then((answer) => answer.text()).then(console.log)`;

/** How often the programs have come to this outcome; 0 with kube-proxy, which has no such metric. */
export async function outcomes({ run }: OtherNode, reason: string): Promise<number> {
  const text = await run('n1', [process.execPath, '-e', SCRAPE]);
  const found = new RegExp(`^fairlead_outcomes_total\\{reason="${reason}"\\} (\\d+)`, 'm');
  return Number(found.exec(text)?.[1] ?? 0);
}
