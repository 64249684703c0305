// SPDX-License-Identifier: Apache-2.0
// fl_cookie: the keys of the cookies that nodes send each other with direct return, from a file that is read again when it changes. A
// file that cannot be used changes nothing: the last secrets stay, those of an earlier agent too.
import { reasonOf } from '../../../../errors.ts';
import type { Logger } from '../../../../log.ts';
import type { BpfMap } from '../../../../sys/native.ts';
import type { Entry } from '../../../entry.ts';
import type { CookieView } from '../../../snapshot.ts';
import { encodeU32 } from '../../layout/layout.ts';
import { type Cookies, decodeCookies, encodeCookies } from '../direct-layout.ts';
import { readSecrets, type SecretsRead, viewOf } from './cookie-secrets.ts';

type CookieMap = Pick<BpfMap, 'get' | 'put' | 'delete'>;

export interface SecretFile {
  readonly path: string;
  /** Throws if it cannot be read. */
  read(): string;
  /** Calls `onChange` with each text that is another than the one before. */
  follow(known: string, onChange: (text: string) => void): { close(): void };
}

export interface FollowedCookies {
  view(): CookieView;
  /** Why this node must not take part in direct return: others would not take what it sends. */
  readonly whyNot: string | undefined;
  /** Compares with the kernel what was written, and repairs it. */
  audit(): readonly Entry[];
  close(): void;
}

const KEY = encodeU32(0);

/** @param file undefined: nobody needs a cookie */
export function followCookies(
  map: CookieMap,
  file: SecretFile | undefined,
  log: Pick<Logger, 'info' | 'warn'>,
): FollowedCookies {
  let cookies = cookiesIn(map);
  let problem: string | undefined;
  const write = (): void => {
    if (cookies === undefined) map.delete(KEY);
    else map.put(KEY, encodeCookies(cookies));
  };
  const use = (read: SecretsRead): void => {
    if (!read.ok) {
      problem = `${file?.path} is not used: ${read.reason}`;
      log.warn({ reason: read.reason, file: file?.path }, 'secrets of direct return not used');
      return;
    }
    problem = undefined;
    cookies = read.value;
    write();
    if (file !== undefined) log.info({ ...viewOf(cookies) }, 'secrets of direct return read');
  };
  const first = file === undefined ? { text: '', read: NO_FILE } : firstOf(file);
  use(first.read);
  const watch = file?.follow(first.text, (text) => use(readSecrets(text)));
  return {
    view: () => ({ ...viewOf(cookies), ...(problem !== undefined && { problem }) }),
    whyNot:
      problem === undefined || cookies !== undefined
        ? undefined
        : `${problem}; mend it, then start the agent again`,
    audit() {
      if (isSame(map.get(KEY), cookies && encodeCookies(cookies))) return [];
      write();
      return [{ id: { kind: 'setting', setting: 'cookies' }, text: DIFFERENT }];
    },
    close: () => watch?.close(),
  };
}

const NO_FILE: SecretsRead = { ok: true, value: undefined };
const DIFFERENT = 'secrets of direct return differ';

function firstOf(file: SecretFile): { readonly text: string; readonly read: SecretsRead } {
  try {
    const text = file.read();
    return { text, read: readSecrets(text) };
  } catch (error) {
    return { text: '', read: { ok: false, reason: reasonOf(error) } };
  }
}

function cookiesIn(map: CookieMap): Cookies | undefined {
  const value = map.get(KEY);
  return value === undefined ? undefined : decodeCookies(value);
}

const isSame = (one: Uint8Array | undefined, other: Uint8Array | undefined): boolean =>
  one === undefined || other === undefined ? one === other : Buffer.compare(one, other) === 0;
