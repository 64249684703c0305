// SPDX-License-Identifier: Apache-2.0
// Flags as they were given -> the two documents they stand for, with errors and warnings.
import { isRecord, type JsonRecord, shown } from '../../lib/json.ts';
import { fieldName, type Locate } from '../diagnostics.ts';
import { formatDuration, parseFlagDuration } from '../duration.ts';
import { TABLES } from '../settings/programs.ts';
import { FAIRLEAD_FLAGS } from '../settings/settings.ts';
import type { Diagnostic, FieldPath } from '../types.ts';
import { KUBE_PROXY_FLAGS } from './kube-proxy.ts';
import type { FlagGroup, FlagRow } from './row.ts';

export const FLAGS: readonly FlagRow[] = [...KUBE_PROXY_FLAGS, ...FAIRLEAD_FLAGS];

/** Text of each given flag, by its name without dashes; a flag without a value is `true`. */
export type FlagValues = Readonly<Record<string, string>>;

export interface FlagDocuments {
  readonly kubeProxy: JsonRecord;
  readonly own: JsonRecord;
  readonly problems: readonly Diagnostic[];
  readonly warnings: readonly Diagnostic[];
  /** True if a flag gave this setting. */
  readonly isGiven: (group: 'kubeProxy' | 'own', path: FieldPath) => boolean;
}

const named = (flag: string): Pick<Diagnostic, 'location' | 'field'> => ({
  location: '',
  field: `--${flag}`,
});

/** @param hasFile with --config, kube-proxy's flags that describe the proxy only cause a warning */
export function readFlags(flags: FlagValues, hasFile: boolean): FlagDocuments {
  const kubeProxy: Record<string, unknown> = {};
  const own: Record<string, unknown> = {};
  const problems: Diagnostic[] = [];
  const warnings: Diagnostic[] = [];
  const given = new Set<string>();
  for (const row of FLAGS) {
    const text = flags[row.flag];
    if (text === undefined) continue;
    if (hasFile && row.group === 'proxy') {
      warnings.push({
        ...named(row.flag),
        reason: 'ignored: --config is given and takes precedence',
      });
      continue;
    }
    const parsed = parseValue(row, text);
    if (!parsed.ok) {
      problems.push({ ...named(row.flag), reason: `${parsed.reason}, not ${shown(text)}` });
      continue;
    }
    const target = row.group === 'own' ? own : kubeProxy;
    for (const path of row.paths) {
      put(target, path, parsed.value);
      given.add(`${docOf(row.group)} ${fieldName(path)}`);
    }
  }
  const isGiven: FlagDocuments['isGiven'] = (group, path) =>
    path.some((_, index) => given.has(`${group} ${fieldName(path.slice(0, index + 1))}`));
  return { kubeProxy, own, problems, warnings, isGiven };
}

const docOf = (group: FlagGroup): 'kubeProxy' | 'own' => (group === 'own' ? 'own' : 'kubeProxy');

/** Settings by the name of their flag, also of those that were not given; `featureGates.X` is --feature-gates. */
export function flagLocator(document: 'kubeProxy' | 'own'): Locate {
  const names = new Map<string, string>();
  for (const { flag, group, paths } of FLAGS) {
    if (docOf(group) === document) for (const path of paths) names.set(fieldName(path), flag);
  }
  return (path) => {
    for (let length = path.length; length > 0; length--) {
      const flag = names.get(fieldName(path.slice(0, length)));
      if (flag !== undefined) return named(flag);
    }
    return { location: '', field: fieldName(path) };
  };
}

type Parsed =
  | { readonly ok: true; readonly value: unknown }
  | { readonly ok: false; readonly reason: string };

const value = (parsed: unknown): Parsed => ({ ok: true, value: parsed });
const refused = (reason: string): Parsed => ({ ok: false, reason });

function parseValue(row: FlagRow, text: string): Parsed {
  switch (row.type) {
    case 'string':
      return value(text);
    case 'duration':
      // The schema rejects what is no duration, and for kube-proxy's flags a bare number.
      return value(row.group === 'own' ? withUnit(text) : text);
    case 'int':
      return /^[-+]?\d+$/.test(text) ? value(Number(text)) : refused('must be an integer');
    case 'float':
      return text !== '' && Number.isFinite(Number(text))
        ? value(Number(text))
        : refused('must be a number');
    case 'bool':
      return parseBool(text);
    case 'list':
      return value(parts(text));
    case 'boolMap':
      return parsePairs(text, parseBool);
    case 'sizeMap':
      return parseSizes(text);
  }
}

/** `30` -> `30s`: in fairlead's own flags a bare number means seconds. */
function withUnit(text: string): string {
  const ms = parseFlagDuration(text);
  return ms === undefined ? text : formatDuration(ms);
}

/** The values that Go's strconv.ParseBool takes. */
function parseBool(text: string): Parsed {
  if (['1', 't', 'T', 'true', 'TRUE', 'True'].includes(text)) return value(true);
  if (['0', 'f', 'F', 'false', 'FALSE', 'False'].includes(text)) return value(false);
  return refused('must be true or false');
}

const parts = (text: string): readonly string[] =>
  text
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '');

function parseSizes(text: string): Parsed {
  const unknown = parts(text)
    .map((part) => part.split('=', 1)[0] ?? '')
    .find((name) => !TABLES.includes(name));
  if (unknown !== undefined) return refused(`must name one of ${TABLES.join(', ')}`);
  return parsePairs(text, (count) =>
    /^\d+$/.test(count) ? value(Number(count)) : refused('must be e.g. frontends=1000'),
  );
}

/** `service-ports=5` -> `{servicePorts: 5}`. */
function parsePairs(text: string, parse: (text: string) => Parsed): Parsed {
  const pairs: Record<string, unknown> = {};
  for (const part of parts(text)) {
    const [, name, right] = /^([^=]+)=(.*)$/.exec(part) ?? [];
    const parsed = parse(right ?? '');
    if (name === undefined || !parsed.ok) {
      return parsed.ok ? refused('must be name=value pairs') : parsed;
    }
    pairs[name.replace(/-([a-z])/g, (_, letter: string) => letter.toUpperCase())] = parsed.value;
  }
  return value(pairs);
}

function put(target: Record<string, unknown>, path: FieldPath, found: unknown): void {
  const [step = '', ...rest] = path;
  if (rest.length === 0) {
    target[step] = found;
    return;
  }
  const inner = target[step];
  const section: Record<string, unknown> = isRecord(inner) ? { ...inner } : {};
  put(section, rest, found);
  target[step] = section;
}
