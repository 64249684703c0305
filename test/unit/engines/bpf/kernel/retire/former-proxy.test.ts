// SPDX-License-Identifier: Apache-2.0
// The signs of an earlier proxy, whose connections must not be reset.
import { expect, test } from 'vitest';
import { findFormerProxy } from '../../../../../../src/engines/bpf/kernel/retire/former-proxy.ts';
import type { readConntrack } from '../../../../../../src/sys/conntrack/conntrack-table.ts';
import type { ConntrackEntry } from '../../../../../../src/sys/conntrack/entry.ts';

const PLAIN: ConntrackEntry = {
  protocol: 'TCP',
  ...{ destination: '192.0.2.7', destinationPort: 443 },
  ...{ replySource: '192.0.2.7', replySourcePort: 443 },
  identity: new Uint8Array(),
};

interface Table {
  readonly IPv4?: readonly ConntrackEntry[];
  readonly IPv6?: readonly ConntrackEntry[];
  readonly isWhole?: boolean;
}

/** As the kernel's table, which the caller reads a part at a time. */
const table =
  ({ isWhole = true, ...all }: Table): typeof readConntrack =>
  async ({ family, wants }, onEntries) => {
    const entries = all[family] ?? [];
    for (const entry of entries) {
      if (wants(entry.protocol, entry.destinationPort)) await onEntries([entry]);
    }
    return { entries: entries.length, isWhole };
  };

const NOTHING = {
  mayHaveRules: () => false,
  ipvs: () =>
    'IP Virtual Server version 1.2.1 (size=4096)\nProt LocalAddress:Port Scheduler Flags\n',
  read: table({ IPv4: [PLAIN], IPv6: [PLAIN] }),
};

test('a node that has had none: connections that are not translated are no sign', async () => {
  expect(await findFormerProxy(['lo', 'eth0', 'cni0'], NOTHING)).toBeUndefined();
  expect(await findFormerProxy([], { ...NOTHING, ipvs: () => undefined })).toBeUndefined();
});

test.each([
  ['another address', { replySource: '10.1.1.5' }],
  ['another port', { replySourcePort: 8443 }],
])('conntrack has a connection that was translated to %s', async (_, change) => {
  const entry = { ...PLAIN, ...change };
  for (const all of [{ IPv4: [PLAIN, entry] }, { IPv4: [PLAIN], IPv6: [entry] }]) {
    expect(await findFormerProxy([], { ...NOTHING, read: table(all) })).toBe(
      'translated TCP connections in conntrack',
    );
  }
  const datagram = { ...entry, protocol: 'UDP' as const };
  const ofUdp = { ...NOTHING, read: table({ IPv4: [datagram] }) };
  expect(await findFormerProxy([], ofUdp), 'UDP is never reset').toBeUndefined();
});

test('a table that cannot be read, or not all of it, may have some', async () => {
  const refused = { ...NOTHING, read: () => Promise.reject(new Error('ctnetlink: EPERM')) };
  expect(await findFormerProxy([], refused)).toContain('ctnetlink: EPERM');
  const cut = { ...NOTHING, read: table({ isWhole: false }) };
  expect(await findFormerProxy([], cut)).toContain('a part of conntrack');
});

test('rules, virtual servers, and networks whose connections conntrack does not show', async () => {
  expect(await findFormerProxy([], { ...NOTHING, mayHaveRules: () => true })).toContain('rules');
  const servers = `${NOTHING.ipvs()}TCP  0A60000A:0050 rr\n  -> 0A010105:1F90 Masq 1 0 0\n`;
  expect(await findFormerProxy([], { ...NOTHING, ipvs: () => servers })).toContain('IPVS');
  expect(await findFormerProxy(['lo', 'cilium_host'], NOTHING)).toContain('Cilium');
});
