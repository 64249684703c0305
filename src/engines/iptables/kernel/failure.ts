// SPDX-License-Identifier: Apache-2.0
// What a failed iptables-restore means: the line that failed, what is missing, and what to do, in one line.
//   restoreFailure(result, input).reason
//     -> 'iptables-nft-restore failed at line 3, `-A KUBE-SEP-X -m recent …`: No such file or directory; the kernel lacks xt_recent: …'

export interface Failure {
  readonly reason: string;
  /** The line that failed; undefined: not known. */
  readonly line: string | undefined;
}

/** Who has the lock that iptables-legacy takes; undefined: not known. */
export interface LockHolder {
  readonly pid: number;
  readonly program: string;
}

export interface Attempt {
  readonly program: string;
  readonly input: string;
  /** As of sys/exec.ts. */
  readonly result: { readonly code: number; readonly stderr: string };
  readonly waitSeconds: number;
  /** Asked only if the lock was not free. */
  readonly lockHolder: () => LockHolder | undefined;
}

const MAX_LINE_CHARACTERS = 200;

export function restoreFailure(attempt: Attempt): Failure {
  const { program, input, result } = attempt;
  if (result.code === 127) return { reason: missingText(program), line: undefined };
  if (result.code === 124) {
    const reason = `${program} was stopped because it did not end: look with \`ps\` whether another iptables hangs, too`;
    return { reason, line: undefined };
  }
  if (isLocked(result.stderr)) return { reason: lockedText(attempt), line: undefined };
  const line = failedLine(result.stderr, input);
  const at = line === undefined ? '' : ` at line ${line.number}, \`${shortened(line.text)}\``;
  const why = reasonIn(result.stderr) || `exit code ${result.code}`;
  const advice = adviceOf(result.stderr, line?.text ?? '');
  return { reason: `${program} failed${at}: ${why}; ${advice}`, line: line?.text };
}

export const missingText = (program: string): string =>
  `${program} was not found: install the package iptables, or put it into PATH`;

const isLocked = (stderr: string): boolean => /holding the xtables lock|xtables\.lock/.test(stderr);

function lockedText({ program, result, waitSeconds, lockHolder }: Attempt): string {
  const unopened = /can't open lock file (\S+): (.+)/.exec(result.stderr);
  if (unopened !== null) {
    const [, path = '', why = ''] = unopened;
    return `${program} cannot open ${path} (${why}): mount the /run of the node, or make the file writable`;
  }
  const holder = lockHolder();
  const who = holder === undefined ? 'another program' : `${holder.program} (pid ${holder.pid})`;
  return `${program} waited ${waitSeconds} s for the xtables lock, which ${who} holds: if it keeps it, end that program`;
}

interface Line {
  readonly number: number;
  readonly text: string;
}

function failedLine(stderr: string, input: string): Line | undefined {
  const found = /line:? (\d+)/.exec(stderr)?.[1];
  if (found === undefined) return undefined;
  const number = Number(found);
  const text = input.split('\n')[number - 1];
  return text === undefined ? undefined : { number, text };
}

const shortened = (text: string): string =>
  text.length <= MAX_LINE_CHARACTERS ? text : `${text.slice(0, MAX_LINE_CHARACTERS)}…`;

/** iptables-nft says it of each rule. */
const LACKS = /^Warning: Extension (\S+) (?:revision \d+|is) not supported, missing kernel module/;
const MAX_REASONS = 2;

const linesOf = (stderr: string): readonly string[] =>
  stderr
    .split('\n')
    .map((line) => line.replace(/^ip6?tables[\w-]*(?: v[\d.]+)?(?: \(\w+\))?: ?/, '').trim())
    .filter((line) => line !== '' && !/^Try `|^Error occurred at line|^# Warning/.test(line))
    .map((line) => line.replace(/^line \d+: /, ''));

/** Not what says only where, or that there is a --help; and once each, because iptables-nft names each chain that a refused rule is in. */
function reasonIn(stderr: string): string {
  const all = [...new Set(linesOf(stderr))];
  const others = all.filter((line) => !LACKS.test(line));
  const reasons = others.length > 0 ? others : all;
  const more = reasons.length - MAX_REASONS;
  return [...reasons.slice(0, MAX_REASONS), ...(more > 0 ? [`and ${more} more`] : [])].join('; ');
}

/** Matches and targets of our rules whose kernel module is called otherwise. */
const MODULES: Readonly<Record<string, string>> = {
  tcp: 'xt_tcpudp',
  udp: 'xt_tcpudp',
  sctp: 'xt_sctp',
  DNAT: 'xt_nat',
  REJECT: 'ipt_REJECT and ip6t_REJECT',
  MARK: 'xt_mark',
};

const moduleOf = (extension: string): string => MODULES[extension] ?? `xt_${extension}`;

const AGAIN = 'all rules are read and written again at the next try';

function adviceOf(stderr: string, line: string): string {
  const extension = /Couldn't load (?:match|target) [`'](\S+?)'/.exec(stderr)?.[1];
  if (extension?.startsWith('KUBE-') === true) {
    return `somebody has deleted the chain ${extension} meanwhile: ${AGAIN}`;
  }
  if (extension !== undefined) {
    return `this iptables has no extension ${extension}: install the whole package iptables`;
  }
  // iptables-nft asks the kernel for it first; what it says then, as of an option that it does not know, follows from that.
  const missing = linesOf(stderr).flatMap((text) => LACKS.exec(text)?.[1] ?? []);
  if (missing.length > 0) {
    const modules = new Set(missing.map(moduleOf));
    return `the kernel lacks ${[...modules].join(', ')}: load it on the node with modprobe`;
  }
  if (/Permission denied|Operation not permitted/.test(stderr)) {
    return 'run the agent as root, or with CAP_NET_ADMIN and CAP_NET_RAW';
  }
  if (/Table does not exist|unable to initialize|can't initialize/.test(stderr)) {
    return 'load the modules iptable_nat and iptable_filter on the node, or use nft';
  }
  const modules = modulesOf(line);
  if (modules.length > 0 && /No such file or directory|No chain\/target\/match/.test(stderr)) {
    return `the kernel may lack one of ${modules.join(', ')}: load it on the node with modprobe`;
  }
  return AGAIN;
}

function modulesOf(line: string): readonly string[] {
  const matches = [...line.matchAll(/ -m (\w+)/g)].map(([, name = '']) => name);
  const target = / -j (?!KUBE-)([A-Z]+)\b/.exec(line)?.[1];
  const isKernels = target !== undefined && !['ACCEPT', 'DROP', 'RETURN'].includes(target);
  const names = [...matches, ...(isKernels ? [target] : [])];
  // Those of ports are in all rules, and in all kernels that have iptables.
  return [...new Set(names.map(moduleOf))].filter((module) => module !== 'xt_tcpudp');
}
