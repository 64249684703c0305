// SPDX-License-Identifier: Apache-2.0
// Values of the agent: its plan, what it has programmed, its status. By their keys, names are told from words of fairlead. Pure.
import { isRecord, type JsonRecord } from '../../lib/json.ts';
import { HIDDEN_TEXT } from './names.ts';
import { CHOICES, type Replacing } from './objects.ts';

/** A name, or a path of names: `default/web:http/TCP/IPv4`. */
const NAMES: ReadonlySet<string> = new Set(
  `namespace name portName service key node nodeName zone hostname reportingInstance`.split(/\s+/),
);
/** Where a name is one of fairlead's, or of the kernel's. */
const NOT_NAMES: ReadonlySet<string> = new Set(
  `hooks tables devices topics programs features detector ingress egress results attempts`.split(
    /\s+/,
  ),
);
/** Written by people, or of this machine: nothing reads them. */
const FREE: ReadonlySet<string> = new Set(
  `reason what consequence advice identity message msg text detail problem why note`.split(/\s+/),
);
/** Of this machine, or of people: of no use elsewhere. */
const HIDDEN: ReadonlySet<string> = new Set(
  `location file path cgroupRoot bpfRoot ifalias uid apiServer server url`.split(/\s+/),
);

export interface WalkOptions {
  /** `name` and the like have names of objects. */
  readonly isNaming: boolean;
  /** Nothing reads the strings: parts of their words are replaced, too. */
  readonly isLoose?: boolean;
}

export type RedactValue = (value: unknown, options: WalkOptions) => unknown;

export function createValueRedaction({ names, texts }: Replacing): RedactValue {
  const path = (text: string): string =>
    text
      .split(/([/:])/)
      .map(
        (part) => texts.address(part) ?? (/^(?:\d+|[/:])$/.test(part) ? part : names.alias(part)),
      )
      .join('');
  /** Messages have what people wrote in quotes. */
  const message = (text: string): string =>
    texts.redact(
      text
        .replace(PATH, HIDDEN_TEXT)
        .replace(QUOTED, (_, one: string) => `"${texts.address(one) ?? word(one)}"`),
      true,
    );
  const word = (text: string): string => (CHOICES.has(text) ? text : names.hide(text));
  const stringOf = (
    key: string,
    text: string,
    { isNaming, isLoose = false }: WalkOptions,
  ): string => {
    if (key === 'labels') return '';
    // Of labels, as in objects.
    if (isNaming && key === 'nodes')
      return text.replace(SELECTED, (one) => (/^(?:not)?in$/.test(one) ? one : names.alias(one)));
    if (HIDDEN.has(key)) return HIDDEN_TEXT;
    if (FREE.has(key)) return message(text);
    if (!isNaming || !NAMES.has(key) || text.includes(' ')) return texts.redact(text, isLoose);
    return texts.address(text) ?? path(text);
  };
  const walk = (value: unknown, key: string, options: WalkOptions): unknown => {
    if (typeof value === 'string') return stringOf(key, value, options);
    if (Array.isArray(value)) return value.map((one) => walk(one, key, options));
    return isRecord(value) ? record(value, options) : value;
  };
  const record = (value: JsonRecord, options: WalkOptions): JsonRecord => {
    const { $map: entries } = value;
    if (Array.isArray(entries)) {
      const replaced = (entries as readonly (readonly [string, unknown])[]).map(([key, one]) => [
        texts.address(key) ?? path(key),
        walk(one, typeof one === 'string' ? 'name' : '', options),
      ]);
      return { $map: replaced };
    }
    return Object.fromEntries(
      Object.entries(value).map(([key, one]) => {
        const isNaming = options.isNaming && !NOT_NAMES.has(key);
        return [key, walk(one, key, { ...options, isNaming })];
      }),
    );
  };
  return (value, options) => walk(value, '', options);
}

const SELECTED = /[^\s,=!()]+/g;
/** Of files; what the kernel has is the same everywhere. */
const PATH = /(?<![\w.\]/])\/(?!(?:sys|proc|dev|etc)\/)(?:[\w.@+-]+\/)+[\w.@+-]+/g;
const QUOTED = /"([^"]*)"/g;
