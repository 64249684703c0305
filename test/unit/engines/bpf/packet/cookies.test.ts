// SPDX-License-Identifier: Apache-2.0
// The secrets of direct return: what a file says, and that a file which says nothing that can be used changes nothing.
import { beforeEach, describe, expect, test } from 'vitest';
import { decodeCookies } from '../../../../../src/engines/bpf/direct-return/direct-layout.ts';
import { followCookies } from '../../../../../src/engines/bpf/direct-return/kernel/cookie-follow.ts';
import {
  readSecrets,
  type SecretsRead,
  viewOf,
} from '../../../../../src/engines/bpf/direct-return/kernel/cookie-secrets.ts';

const [A, B] = ['a'.repeat(32), 'b'.repeat(64)];

const used = (read: SecretsRead) => {
  if (!read.ok) throw new Error(read.reason);
  return read.value;
};
const view = (text: string) => viewOf(used(readSecrets(text)));
const printOf = (secret: string): string => view(secret).sent;

describe('a file', () => {
  test.each([
    ['one secret', A, { sent: 'A', taken: ['A'] }],
    ['two: the first one is sent', `${B}\n${A}\n`, { sent: 'B', taken: ['B', 'A'] }],
    ['one that is coming', `none\n${A}`, { sent: 'none', taken: ['A', 'none'] }],
    ['one that not all send yet', `${A}\nnone\n`, { sent: 'A', taken: ['A', 'none'] }],
    ['none', 'none\n', { sent: 'none', taken: ['none'] }],
    ['blanks and empty lines', `\n ${A}\t\r\n\n`, { sent: 'A', taken: ['A'] }],
  ])('%s', (_, text, wanted) => {
    const names: Record<string, string> = { A: printOf(A), B: printOf(B), none: 'none' };
    expect(view(text)).toEqual({
      sent: names[wanted.sent],
      taken: wanted.taken.map((name) => names[name]),
    });
  });

  test.each([
    ['', 'it has no line'],
    [`${A}\n${B}\nnone`, 'it has 3 lines, at most 2'],
    [`${A}\n${A}`, 'its lines are the same'],
    ['none\nnone', 'its lines are the same'],
    [`${A}\nshort-secret`, 'line 2 is neither none nor a secret of 32 characters or more'],
  ])('%j is refused, without a secret in the reason', (text, reason) => {
    expect(readSecrets(text)).toEqual({ ok: false, reason });
  });

  test('a key is none of the bytes of its secret, and its fingerprint none of the key', () => {
    const { keys = [] } = used(readSecrets(A)) ?? {};
    // By sha256sum of "fairlead direct return key\n" and the secret, so that every version derives the same.
    expect(Buffer.from(keys[0] ?? []).toString('hex')).toBe('e994a65607f507bcba4f2cea15965b65');
    expect(printOf(A)).toBe('f1538519');
  });
});

describe('fl_cookie', () => {
  let held: Uint8Array | undefined;
  let text: string | Error;
  let change: (text: string) => void;
  let isClosed: boolean;
  const logged: unknown[] = [];
  const log = {
    info: (fields: object) => logged.push(fields),
    warn: (fields: object) => logged.push(fields),
  };
  const map = {
    get: () => held,
    put: (_: Uint8Array, value: Uint8Array) => {
      held = value.slice();
    },
    delete: () => {
      const had = held !== undefined;
      held = undefined;
      return had;
    },
  };
  const file = {
    path: '/etc/secrets',
    read: (): string => {
      if (text instanceof Error) throw text;
      return text;
    },
    follow: (_: string, onChange: (text: string) => void) => {
      change = onChange;
      return {
        close: () => {
          isClosed = true;
        },
      };
    },
  };
  const follow = () => followCookies(map, file, log);
  const inMap = () => (held === undefined ? undefined : viewOf(decodeCookies(held)));

  beforeEach(() => {
    held = undefined;
    text = A;
    isClosed = false;
    logged.length = 0;
  });

  test('has what the file says, and follows it', () => {
    const cookies = follow();
    expect(inMap()).toEqual(view(A));
    change(`${B}\n${A}`);
    expect(inMap()).toEqual(view(`${B}\n${A}`));
    expect(cookies.view()).toEqual(view(`${B}\n${A}`));
    change('none');
    expect(held).toBeUndefined();
    expect(cookies.whyNot).toBeUndefined();
    cookies.close();
    expect(isClosed).toBe(true);
  });

  test('a file that cannot be used changes nothing, and is told', () => {
    const cookies = follow();
    change('too short');
    const problem =
      '/etc/secrets is not used: line 1 is neither none nor a secret of 32 characters or more';
    expect([inMap(), cookies.view()]).toEqual([view(A), { ...view(A), problem }]);
    change(B);
    expect([inMap(), cookies.view()]).toEqual([view(B), view(B)]);
  });

  test('at a start those of an earlier agent stay; without any there is no direct return', () => {
    follow();
    text = new Error('EACCES');
    const cookies = follow();
    expect([inMap(), cookies.whyNot]).toEqual([view(A), undefined]);
    expect(cookies.view().problem).toBe('/etc/secrets is not used: EACCES');
    held = undefined;
    expect(follow().whyNot).toBe(
      '/etc/secrets is not used: EACCES; mend it, then start the agent again',
    );
    expect(held).toBeUndefined();
  });

  test('without a file there is none, also where an earlier agent had one', () => {
    follow();
    const cookies = followCookies(map, undefined, log);
    expect([held, cookies.view(), cookies.whyNot]).toEqual([undefined, view('none'), undefined]);
  });

  test('an audit tells that somebody else has changed them, and repairs it', () => {
    const cookies = follow();
    expect(cookies.audit()).toEqual([]);
    held?.fill(1, 0, 4);
    expect(cookies.audit()).toMatchObject([{ text: 'secrets of direct return differ' }]);
    expect(inMap()).toEqual(view(A));
    held = undefined;
    expect(cookies.audit()).toHaveLength(1);
    expect([inMap(), cookies.audit()]).toEqual([view(A), []]);
  });

  test('no secret and no key is logged', () => {
    follow();
    change(B);
    change('short');
    const said = JSON.stringify(logged);
    expect(said).toContain(printOf(B));
    for (const secret of [A, B, 'short']) expect(said).not.toContain(secret);
    for (const key of used(readSecrets(`${A}\n${B}`))?.keys ?? []) {
      expect(said).not.toContain(Buffer.from(key).toString('hex').slice(0, 8));
    }
  });
});
