// SPDX-License-Identifier: Apache-2.0
// Patterns of names as a shell has them: `*` stands for any characters, `?` for one.

export function matchesGlob(pattern: string, name: string): boolean {
  const source = pattern.replace(/[.*+?^${}()|[\]\\]/g, (character) => {
    if (character === '*') return '.*';
    return character === '?' ? '.' : `\\${character}`;
  });
  return new RegExp(`^${source}$`, 's').test(name);
}
