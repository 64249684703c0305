// SPDX-License-Identifier: Apache-2.0
// Each file of test/reports, built in namespaces: every frontend answers clients at each position as is explained.
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { readCapture } from '../../../../src/cli/capture/file.ts';
import { ownNamespaces, removeLeftovers } from '../../../../tools/lab/ownership.ts';
import { replay } from '../../../../tools/replay/replay.ts';

const FOLDER = join(import.meta.dirname, '..', '..', '..', 'reports');
const FILES = readdirSync(FOLDER).filter((name) => name.endsWith('.capture'));

describe.each(FILES)('%s', (name) => {
  test('answers as explained, and nothing is left', async () => {
    removeLeftovers();
    let said = '';
    const onLine = (line: string): void => {
      said += line;
    };
    const { rows } = await replay(readCapture(join(FOLDER, name)), { onLine });
    const others = rows.filter(({ isAsExplained }) => !isAsExplained);
    expect(others).toEqual([]);
    // Most of what was asked was to be answered, and by whom is known.
    const answered = rows.filter(({ answers }) => Object.keys(answers).length > 0);
    expect(answered.length).toBeGreaterThan(rows.length / 3);
    expect(new Set(rows.map(({ client }) => client))).toEqual(new Set(['pod', 'host', 'outside']));
    const [prefix = ''] = /fl[0-9a-z]{6}/.exec(said) ?? [];
    expect(prefix).not.toBe('');
    expect(ownNamespaces(prefix)).toEqual([]);
  });
});
