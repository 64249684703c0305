// SPDX-License-Identifier: Apache-2.0
// `-j NAME` with its options -> a target, if it is one of types.ts.
import type { Group } from './groups.ts';
import type { Rule, Target } from './types.ts';

const REFUSALS: ReadonlySet<string> = new Set([
  ...['icmp-port-unreachable', 'icmp6-port-unreachable'],
]);
const XMARK = /^(0x[0-9a-f]{1,8})\/(0x[0-9a-f]{1,8})$/;

export function readTarget({ isNot, words }: Group): Pick<Rule, 'target'> | undefined {
  const [name = '', ...options] = words.map(({ text }) => text);
  const target = isNot ? undefined : targetOf(name, options);
  return target === undefined ? undefined : { target };
}

function targetOf(name: string, options: readonly string[]): Target | undefined {
  const [option, value = ''] = options;
  switch (`${name} ${option ?? ''}`) {
    case 'REJECT --reject-with':
      return REFUSALS.has(value) && options.length === 2 ? { kind: 'reject' } : undefined;
    case 'DNAT --to-destination':
      return options.length === 2 ? { kind: 'dnat', to: value } : undefined;
    case 'MASQUERADE ':
      return { kind: 'masquerade', isRandomFully: false };
    case 'MASQUERADE --random-fully':
      return options.length === 1 ? { kind: 'masquerade', isRandomFully: true } : undefined;
    case 'MARK --set-xmark': {
      const [, bits, mask] = XMARK.exec(value) ?? [];
      if (bits === undefined || options.length !== 2) return undefined;
      return { kind: 'set-mark', value: Number(bits), mask: Number(mask) };
    }
    default:
      return options.length === 0 ? { kind: 'jump', chain: name } : undefined;
  }
}
