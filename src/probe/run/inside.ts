// SPDX-License-Identifier: Apache-2.0
// The process that tries: in namespaces that were made for it, one feature after the other, a line on stdout for each.
// It ends with whoever started it, and then removes the cgroup itself.

import { reasonOf } from '../../errors.ts';
import {
  CouldNotTell,
  enterProbeSandbox,
  ownStatus,
  type Prepared,
  type ProbeSandbox,
  readLockdown,
} from '../../sys/probe-sandbox.ts';
import { FEATURES, type Feature, type FeatureName } from '../features.ts';
import { forbiddenBy } from '../forbidden.ts';
import { lineText, type Result } from '../results.ts';
import { ATTEMPTS } from './attempts.ts';

export interface InsideParts {
  readonly prepared: Prepared;
  readonly features: readonly FeatureName[];
}

/** @param print writes a line to stdout, which is a pipe to the process that asked */
export async function probeInside(
  { prepared, features }: InsideParts,
  print: (line: string) => void,
): Promise<void> {
  const sandbox = enterProbeSandbox(prepared);
  const leave = (): void => {
    sandbox.abandon();
    process.exit();
  };
  process.stdin.resume().once('end', leave);
  // Whichever is noticed first; as a closed pipe it would end this process at once.
  process.stdout.removeAllListeners('error').once('error', leave);
  for (const feature of features) {
    print(lineText({ begin: feature }));
    print(lineText({ feature, ...(await resultOf(feature, sandbox)) }));
  }
  process.exit();
}

async function resultOf(feature: FeatureName, sandbox: ProbeSandbox): Promise<Result> {
  try {
    const found = await ATTEMPTS[feature](sandbox);
    return { answer: 'yes', reason: typeof found === 'string' ? found : '' };
  } catch (error) {
    const answer = error instanceof CouldNotTell || isMomentary(error) ? 'could not tell' : 'no';
    return { answer, reason: textOf(error, feature) };
  }
}

const codeOf = (error: unknown): string =>
  error instanceof Error && 'code' in error ? String(error.code) : '';

/** They say nothing about what the kernel has. */
const isMomentary = (error: unknown): boolean =>
  ['NO_ADDON', 'ENOMEM', 'EMFILE', 'ENFILE', 'EAGAIN', 'EBUSY'].includes(codeOf(error));

/** In one line. What forbids bpf(2) says more than the call that has failed first. */
function textOf(error: unknown, feature: FeatureName): string {
  const lines = reasonOf(error)
    .split('\n')
    .map((line) => line.trim());
  const reason = shortened(lines.filter((line) => line !== '').join(' '));
  if (error instanceof CouldNotTell || !USES_BPF.includes(FEATURES[feature].group)) return reason;
  const facts = { status: ownStatus(), lockdown: readLockdown() };
  return forbiddenBy(errnoOf(error, reason), facts) ?? reason;
}

/** The verifier's last words may be long. */
const MAX_CHARACTERS = 300;

const shortened = (text: string): string =>
  text.length <= MAX_CHARACTERS ? text : `${text.slice(0, MAX_CHARACTERS)}…`;

const USES_BPF: readonly Feature['group'][] = ['BPF', 'sockets', 'packets'];

/** Errors of the loader have codes of their own, and the kernel's in the text. */
const errnoOf = (error: unknown, reason: string): string =>
  codeOf(error) === 'NO_PRIVILEGE'
    ? 'EPERM'
    : (/\b(EPERM|EACCES|ENOSYS)\b/.exec(reason)?.[0] ?? '');
