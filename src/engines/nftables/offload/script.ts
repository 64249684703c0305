// SPDX-License-Identifier: Apache-2.0
// The table of the flowtable, as nft takes it. It is none of the tables of Services: where a kernel refuses it, those are
// written all the same.
//   removal()            -> table inet fairlead-offload …: both lines at once, whether there is one or not
//   creation(['eth0'])   -> the table with its flowtable, its chain, and its rule
//   addition(['veth1'])  -> what brings further devices into the flowtable

export const OFFLOAD_TABLE = 'fairlead-offload';
const TABLE = `inet ${OFFLOAD_TABLE}`;
const FLOWTABLE = 'services';
/** `offload` is a word of nft. */
const CHAIN = 'connections';

/** The kernel takes 256 of one message. */
const MOST_DEVICES = 200;
/** After the filters of others: what they drop is never offloaded. */
const AFTER_FILTERS = 1000;
/**
 * TCP alone: entries of UDP are deleted when their endpoint has gone. Kernels without commit 9b7c68b3911a (Linux 6.4, and
 * 5.10.182, 5.15.115, 6.1.32, 6.3.6) refuse that with EBUSY while they are offloaded.
 */
const RULE = `meta l4proto tcp ct status dnat ct state established flow add @${FLOWTABLE} comment "connections of Services"`;

/** Adding it first keeps the removal of one that is not there from failing. */
export const removal = (): readonly string[] => [`add table ${TABLE}`, `delete table ${TABLE}`];

export const creation = (devices: readonly string[]): readonly string[] => [
  `add table ${TABLE}`,
  ...addition(devices),
  `add chain ${TABLE} ${CHAIN} { type filter hook forward priority ${AFTER_FILTERS}; policy accept; }`,
  `add rule ${TABLE} ${CHAIN} ${RULE}`,
];

export function addition(devices: readonly string[]): readonly string[] {
  const parts = Array.from({ length: Math.ceil(devices.length / MOST_DEVICES) }, (_, part) =>
    devices.slice(part * MOST_DEVICES, (part + 1) * MOST_DEVICES),
  );
  return parts.map(
    (part) =>
      `add flowtable ${TABLE} ${FLOWTABLE} { hook ingress priority 0; devices = { ${part.map(quoted).join(', ')} }; }`,
  );
}

/** A name may be a word of nft. */
const quoted = (name: string): string => `"${name}"`;

/** What the kernel and nft must be able to, with a device that each network namespace has. */
export const trial = (): string =>
  textOf(creation(['lo'])).replaceAll(OFFLOAD_TABLE, 'fairlead-trial');

export const textOf = (lines: readonly string[]): string => `${lines.join('\n')}\n`;
