// SPDX-License-Identifier: Apache-2.0
// How this process shares CPUs with others.
import { constants, setPriority } from 'node:os';

/** It, and programs that it starts, get what others leave. */
export function giveWay(): void {
  setPriority(constants.priority.PRIORITY_LOW);
}
