// SPDX-License-Identifier: Apache-2.0
// One match of a line that iptables-save printed -> the field of a rule that says exactly the same; undefined if none
// does. Options and their order are those that iptables-save prints.
import { canonicalPrefix } from '../../../lib/ip.ts';
import type { Protocol } from '../../../model/types.ts';
import type { Group } from './groups.ts';
import type { ConnectionState, Prefix, Rule } from './types.ts';

type Found = Partial<Rule> | undefined;

const PROTOCOLS: ReadonlyMap<string, Protocol> = new Map([
  ...([
    ['tcp', 'TCP'],
    ['udp', 'UDP'],
    ['sctp', 'SCTP'],
  ] as const),
  ...([
    ['6', 'TCP'],
    ['17', 'UDP'],
    ['132', 'SCTP'],
  ] as const),
]);
const STATES: ReadonlySet<string> = new Set<ConnectionState>([
  ...(['INVALID', 'NEW', 'RELATED', 'ESTABLISHED', 'DNAT'] as const),
]);
const ALL_BITS = 0xffffffff;
const ONE_ADDRESS = '(?:255\\.255\\.255\\.255|ffff(?::ffff){7})';

/** @param before what the words before it have said: -m tcp belongs to -p tcp */
export function readMatch(group: Group, before: Pick<Rule, 'protocol'>): Found {
  const { isNot, option, words } = group;
  const texts = words.map(({ text }) => text);
  const [value = ''] = texts;
  if (option === '-m') return isNot ? undefined : readModule(value, texts.slice(1), before);
  if (texts.length !== 1) return undefined;
  if (option === '-s' || option === '-d') {
    const prefix = prefixOf(value, isNot);
    if (prefix === undefined) return undefined;
    return option === '-s' ? { source: prefix } : { destination: prefix };
  }
  if (option === '-i') return { inInterface: isNot ? { name: value, not: true } : { name: value } };
  if (isNot) return undefined;
  const protocol = option === '-p' ? PROTOCOLS.get(value) : undefined;
  return protocol === undefined ? undefined : { protocol };
}

/** Only what is canonical already: anything else would be printed in other words than it was read. */
function prefixOf(text: string, isNot: boolean): Prefix | undefined {
  if (canonicalPrefix(text) !== text) return undefined;
  return isNot ? { prefix: text, not: true } : { prefix: text };
}

/** `-m NAME` with its options, of which none but --comment has a blank in it. */
function readModule(
  name: string,
  options: readonly string[],
  before: Pick<Rule, 'protocol'>,
): Found {
  const text = options.join(' ');
  switch (name) {
    case 'comment':
      return options[0] === '--comment' && options.length === 2
        ? { comment: options[1] ?? '' }
        : undefined;
    case 'tcp':
    case 'udp':
    case 'sctp':
      return readPort(name, text, before);
    case 'conntrack':
      return readStates(text);
    case 'addrtype':
      return readAddressTypes(text);
    case 'mark':
      return readMark(text);
    case 'statistic': {
      const [, share] = /^--mode random --probability (\d\.\d+)$/.exec(text) ?? [];
      return share === undefined ? undefined : { probability: Number(share) };
    }
    case 'recent':
      return readRecent(text);
    case 'nfacct':
      return options[0] === '--nfacct-name' && options.length === 2
        ? { accounting: options[1] ?? '' }
        : undefined;
    default:
      return undefined;
  }
}

/** Without options it says no more than -p has said. */
function readPort(name: string, text: string, { protocol }: Pick<Rule, 'protocol'>): Found {
  if (protocol === undefined || PROTOCOLS.get(name) !== protocol) return undefined;
  if (text === '') return {};
  const [, port] = /^--dport (\d{1,5})$/.exec(text) ?? [];
  return port === undefined ? undefined : { destinationPort: Number(port) };
}

const isState = (text: string): text is ConnectionState => STATES.has(text);

function readStates(text: string): Found {
  const [, not, list] = /^(! )?--ctstate ([A-Z,]+)$/.exec(text) ?? [];
  const known = list?.split(',').filter(isState) ?? [];
  if (known.length === 0 || known.join() !== list) return undefined;
  return { states: not === undefined ? { any: known } : { any: known, not: true } };
}

function readAddressTypes(text: string): Found {
  const options = text.split(/ (?=--)/);
  const [isSourceLocal, isDestinationLocal] = ['--src-type LOCAL', '--dst-type LOCAL'].map((one) =>
    options.includes(one),
  );
  const known = (isSourceLocal ? 1 : 0) + (isDestinationLocal ? 1 : 0);
  if (known !== options.length) return undefined;
  return {
    ...(isSourceLocal ? { isSourceLocal: true } : {}),
    ...(isDestinationLocal ? { isDestinationLocal: true } : {}),
  };
}

function readMark(text: string): Found {
  const found = /^(! )?--mark (0x[0-9a-f]{1,8})(?:\/(0x[0-9a-f]{1,8}))?$/.exec(text);
  if (found === null) return undefined;
  const [, not, value, mask] = found;
  const mark = { value: Number(value), mask: mask === undefined ? ALL_BITS : Number(mask) };
  return { mark: not === undefined ? mark : { ...mark, not: true } };
}

const RECENT = new RegExp(
  `^(?:--rcheck --seconds (\\d+) --reap|--set) --name (\\S+) --mask ${ONE_ADDRESS} --rsource$`,
);

function readRecent(text: string): Found {
  const [, seconds, list] = RECENT.exec(text) ?? [];
  if (list === undefined) return undefined;
  const action =
    seconds === undefined
      ? ({ kind: 'set' } as const)
      : ({ kind: 'check', seconds: Number(seconds) } as const);
  return { recent: { list, action } };
}
