// SPDX-License-Identifier: Apache-2.0
// What programs print of this node: rules, devices, routes, and what the kernel can do; and the agent's metrics.
import type { Printed, Unread } from '../../capture/format.ts';
import type { ListenAddress } from '../../config/addresses.ts';
import { isUnspecified } from '../../lib/ip.ts';
import { run } from '../../sys/exec.ts';

/** Of one program: 10,000 Services with 10 endpoints each are a third of it. */
const MAX_LENGTH = 150 * 1024 * 1024;
const MAX_METRICS = 16 * 1024 * 1024;

/** In the words of the programs: read-rules.ts finds them by these. */
export const NFT_LIST = 'nft -y list ruleset';
const SAVES = ['iptables', 'ip6tables'].flatMap((tool) => [
  `${tool}-nft-save`,
  `${tool}-legacy-save`,
]);
const NETWORK = [
  'ip -details -json link',
  'ip -json address',
  'ip -4 -json route show table all',
  'ip -6 -json route show table all',
  'ip -4 -json rule',
  'ip -6 -json rule',
];

export interface Printing {
  readonly timeoutMs: number;
  /** Gets what could not be read. */
  readonly unread: Unread[];
}

export const readRules = (printing: Printing): Promise<readonly Printed[]> =>
  printedBy([NFT_LIST, ...SAVES], printing);

export const readNetwork = (printing: Printing): Promise<readonly Printed[]> =>
  printedBy(NETWORK, printing);

async function printedBy(
  commands: readonly string[],
  { timeoutMs, unread }: Printing,
): Promise<readonly Printed[]> {
  const printed = await Promise.all(
    commands.map(async (command): Promise<readonly Printed[]> => {
      const [program = '', ...args] = command.split(' ');
      const { code, stdout, stderr } = await run(program, args, { timeoutMs });
      const isWhole = code === 0 && stdout.length <= MAX_LENGTH;
      if (isWhole) return [{ command, text: stdout }];
      const said = stderr.trim().split('\n')[0] ?? '';
      const reason =
        code === 0 ? `it printed ${stdout.length} characters` : `exit ${code}: ${said}`;
      unread.push({ what: command, reason });
      return [];
    }),
  );
  return printed.flat();
}

/** Throws if nothing listens there. */
export async function readMetrics(
  at: ListenAddress | undefined,
  timeoutMs: number,
): Promise<string> {
  if (at === undefined) throw new Error('the agent is not to listen for it');
  const any = at.host.includes(':') ? '::1' : '127.0.0.1';
  const host = isUnspecified(at.host) ? any : at.host;
  const name = host.includes(':') ? `[${host}]` : host;
  const signal = AbortSignal.timeout(timeoutMs);
  const response = await fetch(`http://${name}:${at.port}/metrics`, { signal });
  const text = await response.text();
  return text.slice(0, MAX_METRICS);
}

/** In a process of its own: it enters namespaces. */
export async function probed(timeoutMs: number): Promise<unknown> {
  const argv = [process.argv[1] ?? '', 'probe', '-o', 'json'];
  const { stdout, stderr, code } = await run(process.execPath, argv, { timeoutMs });
  if (stdout.startsWith('{')) return JSON.parse(stdout);
  throw new Error(`exit ${code}: ${stderr.trim()}`);
}
