// SPDX-License-Identifier: Apache-2.0
// What is wrong with the input or with its source: one value for sources, status, logs and metrics.
import { refText } from './object-ref.ts';
import type { ObjectRef } from './types.ts';

export interface Problem {
  /** Path as a person would open it; absent if the source has no files. */
  readonly file?: string | undefined;
  /** 1-based; absent if the file as a whole is meant. */
  readonly line?: number | undefined;
  /** The object that is meant, if one could be named. */
  readonly object?: ObjectRef | undefined;
  readonly field?: string | undefined;
  readonly reason: string;
  /** Of an API server: the kinds of objects that cannot be watched, or `all`. */
  readonly kinds?: string | undefined;
  /** Nothing is rejected: worth correcting, and no reason to fail. */
  readonly isWarning?: boolean;
  /** As a warning, and not even that: told once in the log, and by `validate`. */
  readonly isNote?: boolean;
  /** Nothing is rejected: a removal takes effect later, unless it is taken back. */
  readonly isDelayed?: boolean;
}

/** `examples/web.yaml:12: Service default/web: spec.ports[0].port: must be …`, as compilers print it. */
export function problemText({ object, field, file, line, reason, kinds }: Problem): string {
  const location = file === undefined ? [] : [line === undefined ? file : `${file}:${line}`];
  const subject = object === undefined ? [] : [refText(object)];
  const path = field === undefined || field === '' ? [] : [field];
  const scope = kinds === undefined ? '' : ` (kinds: ${kinds})`;
  return [...location, ...subject, ...path, reason + scope].join(': ');
}

/** A problem of an object or a file; any other is one of the source itself. */
export const isOfObject = ({ object, file }: Problem): boolean =>
  object !== undefined || file !== undefined;
