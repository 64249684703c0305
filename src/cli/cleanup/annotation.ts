// SPDX-License-Identifier: Apache-2.0
// `cleanup` and the annotations of this Node that its agent has written: other nodes would go on sending.
import { FairleadError, reasonOf } from '../../errors.ts';
import { OWN_ANNOTATIONS } from '../../model/node/own-annotations.ts';
import { readAnnotated, takeBackAnnotation } from '../../source/apiserver/annotated.ts';
import { packageVersion } from '../../sys/package.ts';
import { print } from '../output.ts';

export interface OwnAnnotation {
  /** `annotation fairlead.io/direct-return of Node n1`. */
  readonly text: string;
  /** Removes it, unless an earlier call has; undefined, or why it is still there and what to do. */
  takeBack(): Promise<FairleadError | undefined>;
}

/** undefined: the agent of this instance has left none. */
export async function findAnnotation(runDir: string): Promise<OwnAnnotation | undefined> {
  const facts = await readAnnotated(runDir);
  if (facts === undefined) return undefined;
  const text = `annotation ${OWN_ANNOTATIONS.join(', ')} of Node ${facts.node}`;
  const removals = OWN_ANNOTATIONS.map((name) => `${name}-`).join(' ');
  const takeBack = async (): Promise<FairleadError | undefined> => {
    try {
      await takeBackAnnotation(runDir, facts, `fairlead/${packageVersion()} (cleanup)`);
    } catch (error) {
      return new FairleadError(
        'CLEANUP_FAILED',
        `${text} is not removed (${reasonOf(error)}), and other nodes may go on sending requests to it: run kubectl annotate node ${facts.node} ${removals}`,
      );
    }
    print(`removed ${text}`);
    return undefined;
  };
  let outcome: Promise<FairleadError | undefined> | undefined;
  return {
    text,
    takeBack: () => {
      outcome ??= takeBack();
      return outcome;
    },
  };
}
