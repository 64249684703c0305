// SPDX-License-Identifier: Apache-2.0
// The rules of policy routing of this process's network namespace, as `ip rule` lists them (linux/fib_rules.h).
import { addressText } from '../../lib/address-bytes.ts';
import { NLM_F, netlinkRequest } from './request.ts';
import { attributesIn, text, u32 } from './wire.ts';

export interface RoutingRule {
  readonly priority: number;
  /** As ip(8) shows it, without the priority. */
  readonly text: string;
  readonly mark?: { readonly value: number; readonly mask: number };
}

const NETLINK_ROUTE = 0;
const RTM_GETRULE = 34;
/** `struct fib_rule_hdr`. */
const HEADER_SIZE = 12;
const AF = { IPv4: 2, IPv6: 10 } as const;
const FRA = {
  DST: 1,
  SRC: 2,
  IIFNAME: 3,
  PRIORITY: 6,
  FWMARK: 10,
  TABLE: 15,
  FWMASK: 16,
  OIFNAME: 17,
  L3MDEV: 19,
} as const;
const FRA_WANTED = Object.values(FRA);
const FIB_RULE_INVERT = 0x2;
const ACTIONS: Readonly<Record<number, string>> = {
  2: 'goto',
  3: 'nop',
  6: 'blackhole',
  7: 'unreachable',
  8: 'prohibit',
};
const TO_TABLE = 1;
const TABLES: Readonly<Record<number, string>> = { 253: 'default', 254: 'main', 255: 'local' };
const ALL = 0xffffffff;

/** Without the rules that every namespace begins with. Throws the kernel's errno. */
export const routingRules = (family: keyof typeof AF): readonly RoutingRule[] =>
  netlinkRequest({
    ...{ protocol: NETLINK_ROUTE, type: RTM_GETRULE, flags: NLM_F.DUMP },
    body: Uint8Array.of(AF[family], ...new Uint8Array(HEADER_SIZE - 1)),
  })
    .filter(({ body }) => body[0] === AF[family])
    .map(({ body }) => ruleOf(body))
    .filter(({ priority, text: shown }) => !STANDARD.includes(`${priority}: ${shown}`));

const STANDARD: readonly string[] = [
  '0: from all lookup local',
  '32766: from all lookup main',
  '32767: from all lookup default',
];

function ruleOf(body: Uint8Array): RoutingRule {
  const found = attributesIn(body, HEADER_SIZE, FRA_WANTED);
  const value = u32(found.get(FRA.FWMARK));
  const mask = u32(found.get(FRA.FWMASK)) ?? ALL;
  const isInverted = ((u32(body, 8) ?? 0) & FIB_RULE_INVERT) !== 0;
  const words = [
    ...(isInverted ? ['not'] : []),
    `from ${prefixText(found.get(FRA.SRC), body[2])}`,
    ...(found.has(FRA.DST) ? [`to ${prefixText(found.get(FRA.DST), body[1])}`] : []),
    ...(value === undefined ? [] : [`fwmark ${hex(value)}${mask === ALL ? '' : `/${hex(mask)}`}`]),
    ...(found.has(FRA.IIFNAME) ? [`iif ${text(found.get(FRA.IIFNAME))}`] : []),
    ...(found.has(FRA.OIFNAME) ? [`oif ${text(found.get(FRA.OIFNAME))}`] : []),
    actionText(body, found),
  ];
  return {
    priority: u32(found.get(FRA.PRIORITY)) ?? 0,
    text: words.join(' '),
    ...(value !== undefined && { mark: { value, mask } }),
  };
}

function actionText(body: Uint8Array, found: ReadonlyMap<number, Uint8Array>): string {
  const action = body[7] ?? 0;
  if (action !== TO_TABLE) return ACTIONS[action] ?? `action ${action}`;
  if ((found.get(FRA.L3MDEV)?.[0] ?? 0) !== 0) return 'lookup [l3mdev-table]';
  const table = u32(found.get(FRA.TABLE)) ?? body[4] ?? 0;
  return `lookup ${TABLES[table] ?? table}`;
}

function prefixText(address: Uint8Array | undefined, length = 0): string {
  if (address === undefined) return 'all';
  return `${addressText(address)}${length === address.length * 8 ? '' : `/${length}`}`;
}

const hex = (value: number): string => `0x${value.toString(16)}`;
