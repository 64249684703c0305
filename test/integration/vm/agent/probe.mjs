// SPDX-License-Identifier: Apache-2.0
// `fairlead probe` on this kernel: a line `# probe FEATURE | ANSWER | REASON` for each feature, `# engine …` for what a start
// does, and the checks of what it may leave behind.
import { readdirSync } from 'node:fs';
import { fairlead, say } from './programs.mjs';

/** The machine is emulated: loading the packet programs takes most of a minute. */
const SECONDS_EACH = '240';
const WHOLE_MS = 900_000;

/** @param {(isOk: boolean, name: string, saw?: unknown) => void} check */
export function checkProbe(check) {
  const words = ['probe', '-o', 'json', '--cgroup-root', '/cgroup', '--timeout', SECONDS_EACH];
  const { stdout, status, stderr } = fairlead(words, WHOLE_MS);
  const isReport = stdout.startsWith('{');
  check(isReport, 'the probe ends with a report', stderr);
  if (!isReport) return;
  /** @type {{ items: { feature: string, answer: string, reason: string }[], tier: { name?: string }, engine: unknown }} */
  const { items, tier, engine } = JSON.parse(stdout);
  for (const { feature, answer, reason } of items) {
    say(`# probe ${feature} | ${answer} | ${reason}`);
  }
  say(`# tier ${tier.name}`);
  say(`# engine ${JSON.stringify(engine)}`);
  check(status === 0, 'one engine serves everything', status);
  const left = readdirSync('/cgroup').filter((name) => name.startsWith('fairlead-probe'));
  check(left.length === 0, 'its cgroup is removed', left);
}
