// SPDX-License-Identifier: Apache-2.0
// What an agent with --shadow has found keeps a start from serving in another way.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import {
  checkRecord,
  readRecord,
  recordPath,
  removeRecord,
  writeRecord,
} from '../../../../src/instance/shadow/record.ts';

const AT = '2026-01-02T03:04:05.000Z';
const differing = [{ service: 'default/web', what: '10.96.0.10:80/TCP verdict' }];

describe('a file', () => {
  let runDir: string;
  beforeEach(() => {
    runDir = mkdtempSync(join(tmpdir(), 'fairlead-record-'));
  });
  afterEach(() => rmSync(runDir, { recursive: true }));

  test('is read as it was written', () => {
    expect(readRecord(runDir)).toBeUndefined();
    writeRecord(runDir, { at: AT, differing });
    expect(readRecord(runDir)).toEqual({ at: AT, differing });
  });

  test('is gone once an agent serves, whether there was one or not', () => {
    removeRecord(runDir);
    writeRecord(runDir, { at: AT, differing });
    removeRecord(runDir);
    expect(readRecord(runDir)).toBeUndefined();
  });

  test.each(['', '{', '[]', '{"at": 1, "differing": []}', '{"at": "x"}'])('%s is none', (text) => {
    writeFileSync(recordPath(runDir), text);
    expect(readRecord(runDir)).toBeUndefined();
  });

  test('what is no Service in it is left out', () => {
    writeFileSync(recordPath(runDir), `{"at": "${AT}", "differing": [1, null, {"service": "a"}]}`);
    expect(readRecord(runDir)).toEqual({ at: AT, differing: [] });
  });
});

test('without a record, or with nothing in it, a start goes on', () => {
  expect(checkRecord(undefined, false)).toBeUndefined();
  expect(checkRecord({ at: AT, differing: [] }, false)).toBeUndefined();
});

test('a start is refused with the Service, what differs, and what to do', () => {
  expect(() => checkRecord({ at: AT, differing }, false)).toThrow(
    expect.objectContaining({
      code: 'SHADOW_DIFFERS',
      message: `1 Service of this node would be served in another way than by kube-proxy, as --shadow has found (${AT}): default/web: 10.96.0.10:80/TCP verdict; see \`fairlead compare\`, and change the Service or the settings until \`fairlead status\` of an agent with --shadow has none, or start with --switch-anyway`,
    }),
  );
});

test('it is told only, if that was asked for', () => {
  expect(checkRecord({ at: AT, differing }, true)).toContain('default/web');
});
