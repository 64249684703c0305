// SPDX-License-Identifier: Apache-2.0
// Texts: rules, messages, metrics. Addresses are found by how they look, names by a list of those that are known. Pure.
import { canonicalAddress } from '../../lib/ip.ts';
import type { AddressMap, Digest } from './addresses.ts';
import type { Names } from './names.ts';

const IPV4 = /(?<![A-Za-z0-9.])(\d{1,3}(?:\.\d{1,3}){3})(?:\/(\d{1,2})(?!\d))?(?![\w]|\.\d)/g;
const IPV6 =
  /(?<![\w:.])([0-9A-Fa-f]{0,4}(?::[0-9A-Fa-f]{0,4}){2,7}(?:\.\d{1,3}){0,3})(?:\/(\d{1,3})(?!\d))?(?![\w:])/g;
/** In names of nftables' chains dots stand for colons. */
const DOTTED = /(?<=__)[0-9a-f]*(?:\.[0-9a-f]*){2,7}(?=\/\d)/g;
/** In names of hosts that are made of addresses: `ip-10-0-1-5.example`. */
const DASHED = /(?<!\d|\d-)\d{1,3}(?:-\d{1,3}){3}(?!\d|-\d)/g;
const MAC = /(?<![\w:])[0-9A-Fa-f]{2}(?::[0-9A-Fa-f]{2}){5}(?![\w:])/g;
/** Names of chains have digests of names, which can be guessed. */
const DIGESTS = /(?<=\bKUBE-[A-Z]{2,4}-)[A-Z2-7]{16}\b|(?<=-)[A-Z2-7]{8}(?=-[\w.-]+\/)/g;
const BASE32 = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567';
const WORD = /[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?/g;
/** Of a name, in which parts of others are found. */
const PART = /[A-Za-z0-9]+/g;

export interface Texts {
  /** @param isLoose parts of words that are names are replaced, too: where nothing reads the text */
  redact(text: string, isLoose?: boolean): string;
  /** One address or prefix, however it is written; undefined: it is none. */
  address(text: string): string | undefined;
}

export function createTexts(addresses: AddressMap, names: Names, digest: Digest): Texts {
  let listed: ReadonlySet<string> | undefined;
  const isName = (word: string): boolean => {
    listed ??= new Set(names.inTexts());
    return listed.has(word);
  };
  const mapped = (plain: string, length: string | undefined): string | undefined => {
    const canonical = canonicalAddress(plain);
    if (canonical === undefined) return undefined;
    if (length === undefined) return addresses.address(canonical);
    const most = canonical.includes(':') ? 128 : 32;
    // Behind an address of a chain's name comes a port.
    if (Number(length) > most) return `${addresses.address(canonical)}/${length}`;
    return addresses.prefix(canonical, Number(length));
  };
  const macOf = (text: string): string => {
    if (/^(?:00|ff)(?::(?:00|ff)){5}$/i.test(text)) return text;
    const bytes = [...digest(`mac ${text.toLowerCase()}`).slice(0, 5)];
    return `02:${bytes.map((byte) => byte.toString(16).padStart(2, '0')).join(':')}`;
  };
  const digestOf = (text: string): string =>
    [...digest(`chain ${text}`).slice(0, text.length)].map((byte) => BASE32[byte & 31]).join('');
  /** The word, or what stands for it. */
  const wordOf = (word: string, isLoose: boolean): string => {
    if (isName(word)) return names.alias(word);
    const rest = isLoose ? partsOf(word) : word;
    return rest.replace(DASHED, (one) => {
      const found = mapped(one.replaceAll('-', '.'), undefined);
      return found?.replaceAll('.', '-') ?? one;
    });
  };
  /** The longest parts of it, at what is neither letter nor digit, that are names are replaced. */
  const partsOf = (word: string): string => {
    const found = [...word.matchAll(PART)];
    let result = '';
    let done = 0;
    for (let from = 0; from < found.length; from += 1) {
      const start = found[from]?.index ?? 0;
      for (let to = found.length - 1; to >= from && start >= done; to -= 1) {
        const last = found[to];
        const end = (last?.index ?? 0) + (last?.[0].length ?? 0);
        const part = word.slice(start, end);
        if (!isName(part)) continue;
        result += word.slice(done, start) + names.alias(part);
        done = end;
      }
    }
    return result + word.slice(done);
  };
  return {
    redact: (text, isLoose = false) =>
      withMarks(
        text
          .replace(MAC, (mac) => mark(macOf(mac)))
          .replace(DOTTED, (one) =>
            markOr(one, mapped(one.replaceAll('.', ':'), undefined)?.replaceAll(':', '.')),
          )
          .replace(IPV6, (whole, plain, length) => markOr(whole, mapped(plain, length)))
          .replace(IPV4, (whole, plain, length) => markOr(whole, mapped(plain, length)))
          .replace(DIGESTS, digestOf),
        (rest) => rest.replace(WORD, (word) => wordOf(word, isLoose)),
      ),
    address(text) {
      const [plain = '', length] = text.split('/');
      if (canonicalAddress(plain) === undefined) return undefined;
      if (length !== undefined && !/^\d{1,3}$/.test(length)) return undefined;
      return mapped(plain, length);
    },
  };
}

/** What is replaced already is no part of a word. */
const OPEN = '\u{e000}';
const CLOSE = '\u{e001}';
const mark = (text: string): string => `${OPEN}${text}${CLOSE}`;
/** Marks are never within marks: a hardware address looks like one of IPv6. */
const markOr = (text: string, found: string | undefined): string =>
  found === undefined ? text : mark(found);

const withMarks = (text: string, redact: (rest: string) => string): string =>
  text
    .split(/(\u{e000}[^\u{e001}]*\u{e001})/u)
    .map((part) => (part.startsWith(OPEN) ? part.slice(1, -1) : redact(part)))
    .join('');
