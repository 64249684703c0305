// SPDX-License-Identifier: Apache-2.0
// Why a file that somebody named cannot be read, and what to do about it.
import { reasonOf } from '../errors.ts';
import { recordOrEmpty } from './json.ts';

const ADVICE: Readonly<Record<string, string>> = {
  ENOENT: 'it does not exist: correct the path, or mount the file',
  EACCES: 'permission denied: let the user of this process read it',
  EISDIR: 'it is a folder: name the file in it',
};

/** @param error what reading it threw */
export const unreadableReason = (error: unknown): string =>
  ADVICE[String(recordOrEmpty(error)['code'])] ?? reasonOf(error);
