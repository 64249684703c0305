// SPDX-License-Identifier: Apache-2.0
// The steps that undo an attachment if a later step fails, in the order in which it was made.
export type Undo = (() => void)[];

export function takeBack(undo: Undo): void {
  for (const step of undo.splice(0).reverse()) step();
}

export const closeAll = (handles: Iterable<{ close(): void }>): void => {
  for (const handle of handles) handle.close();
};
