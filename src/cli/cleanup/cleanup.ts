// SPDX-License-Identifier: Apache-2.0
// `fairlead cleanup --kube-proxy`: removes what kube-proxy has left, or prints it.

import { type Leftover, leftoversText } from '../../engines/kube-proxy/leftover.ts';
import { FairleadError } from '../../errors.ts';
import { type Scan, scanLeftovers } from '../../instance/leftovers/scan.ts';
import { removeInTurn } from '../../instance/leftovers/step.ts';
import { checkMayList } from '../../instance/preflight/checks.ts';
import { findServingKubeProxy } from '../../instance/preflight/other-proxies.ts';
import { print, say } from '../output.ts';
import { type Column, table } from '../view/columns.ts';

const COLUMNS: readonly Column<Leftover>[] = [
  { title: 'KIND', cell: ({ kind }) => kind },
  { title: 'WHERE', cell: ({ where }) => where },
  { title: 'WHAT', cell: ({ what }) => what },
  { title: 'COUNT', cell: ({ count }) => String(count) },
];

/** Throws NO_PRIVILEGE, RULES_IN_USE, except on a dry run, and CLEANUP_FAILED. */
export async function cleanupKubeProxy({ dryRun }: { readonly dryRun: boolean }): Promise<void> {
  checkMayList();
  const serving = await findServingKubeProxy();
  if (serving.length > 0 && !dryRun) throw new FairleadError('RULES_IN_USE', servingText(serving));
  const scan = await scanLeftovers();
  if (dryRun) {
    showLeftovers(scan);
    if (serving.length > 0) say(`nothing would be removed: ${servingText(serving)}`);
    return;
  }
  await remove(scan);
}

const servingText = (serving: readonly string[]): string =>
  `${serving.join(', ')} serves this network namespace and would write its rules again: remove it from the node first`;

const fairleadsText = ({ fairleads }: Scan): string =>
  `the KUBE- chains of ${fairleads.join(', ')} are those of fairlead's iptables engine: to remove them, stop the agent and run \`fairlead cleanup\``;

function showLeftovers(scan: Scan): void {
  if (scan.leftovers.length > 0) {
    const options = { isWide: false, hasHeaders: true, width: undefined };
    print(table(scan.leftovers, COLUMNS, options).text);
  }
  report('would remove', scan);
}

async function remove(scan: Scan): Promise<void> {
  const failures = await removeInTurn(scan.removals);
  if (failures.length === 0) {
    report('removed', scan);
    return;
  }
  throw new FairleadError(
    'CLEANUP_FAILED',
    `kube-proxy's leftovers were not all removed: ${failures.join('; ')}`,
  );
}

function report(verb: string, scan: Scan): void {
  const { leftovers, kept, fairleads, unread } = scan;
  const summary = leftoversText(leftovers);
  print(summary === '' ? 'kube-proxy has left nothing to remove' : `${verb} ${summary}`);
  for (const { where, what, reason } of kept) print(`kept ${where} ${what}: ${reason}`);
  if (fairleads.length > 0) say(fairleadsText(scan));
  for (const reason of unread) say(`not looked at: ${reason}`);
}
