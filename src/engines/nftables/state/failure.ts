// SPDX-License-Identifier: Apache-2.0
// What nft says when it fails -> which part of its input was refused, and what to do.
//   /dev/stdin:12:5-9: Error: Could not process rule: No such file or directory
import type { Plan, ServiceKey } from '../../../plan/types.ts';
import { portOfChain } from '../rules/names.ts';

export interface Failure {
  readonly reason: string;
  /** That was refused; undefined: not known. */
  readonly line: string | undefined;
  /** The kernel does not know yet that nothing leads to a chain any more: before Linux 6.2. */
  readonly isBusy: boolean;
}

interface Result {
  readonly code: number;
  readonly stderr: string;
}

const MAX_LINE = 200;

const ADVICE: readonly (readonly [RegExp, string])[] = [
  [/Operation not permitted/, 'run as root, or with CAP_NET_ADMIN'],
  [
    /Operation not supported|No such file or directory/,
    'the kernel may lack a module of nftables: `fairlead probe` names it',
  ],
  [/No space left|Too many open files in system/, 'a set is full'],
  [/syntax error|unexpected/, 'install nftables 1.0.1 or later'],
];

export function failureOf(script: string, { code, stderr }: Result): Failure {
  const [, number = '', from = '', to = '', text = ''] =
    /:(\d+):(\d+)-(\d+): Error: (.*)/.exec(stderr) ?? [];
  const written = script.split('\n')[Number(number) - 1];
  const said = text === '' ? firstLine(stderr, code) : text;
  const advice = ADVICE.find(([pattern]) => pattern.test(said))?.[1];
  const part = partOf(written, Number(from), Number(to));
  const where = part === undefined ? '' : ` at \`${part.slice(0, MAX_LINE)}\``;
  const what =
    code === 127 ? 'nft is not installed: install nftables' : `nft failed${where}: ${said}`;
  return {
    reason: advice === undefined || code === 127 ? what : `${what}; ${advice}`,
    line: part === undefined ? undefined : `${written?.slice(0, MAX_LINE)} ${part}`,
    isBusy: /Device or resource busy/.test(stderr),
  };
}

/** Of a line with many elements the one that is named, of others the line. */
const partOf = (line: string | undefined, from: number, to: number): string | undefined =>
  line !== undefined && / element /.test(line.slice(0, 20)) && to > from
    ? line.slice(from - 1, to)
    : line;

const firstLine = (stderr: string, code: number): string =>
  stderr.split('\n').find((line) => line.trim() !== '') ?? `it ended with code ${code}`;

/** The Service that a refused line belongs to: by its comment, or by a chain of its own. */
export function serviceOfLine(
  line: string | undefined,
  { services }: Plan,
): ServiceKey | undefined {
  const words = (line ?? '').split(/[\s"@]+/);
  for (const word of words.toReversed()) {
    const port = portOfChain(word);
    const key = port === undefined ? word.split(':')[0] : `${port.namespace}/${port.name}`;
    if (key !== undefined && services.has(key)) return key;
  }
  return undefined;
}
