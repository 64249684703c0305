// SPDX-License-Identifier: Apache-2.0
// One rule of each kind, restored into a network namespace of its own by the node's iptables, and one packet that it
// sees. Each function throws if it does not work.
import type { Family } from '../../../../model/types.ts';
import { connectOnce, sendDatagram, withServer } from '../../../../sys/loopback.ts';
import { CouldNotTell, type ProbeSandbox } from '../../../../sys/probe-sandbox.ts';
import { type Tools, toolsOf } from '../tools.ts';
import type { Variant } from '../variant.ts';

/** Nobody listens there in a new network namespace. */
const FREE_PORT = 9;

/** A connect() to a port where nobody listens is sent to one where somebody does. */
export async function translateByRule(
  variant: Variant,
  family: Family,
  sandbox: ProbeSandbox,
): Promise<void> {
  sandbox.network();
  const [host, to] = family === 'IPv4' ? ['127.0.0.1', '127.0.0.1'] : ['::1', '[::1]'];
  const tools = toolsOf(family, variant);
  await withServer(host, async (port) => {
    const rule = `-A OUTPUT -p tcp -m tcp --dport ${FREE_PORT} -j DNAT --to-destination ${to}:${port}`;
    await withRule(tools, { table: 'nat', rule }, async () => {
      await connectOnce(host, FREE_PORT);
    });
  });
}

const VARIANTS: readonly Variant[] = ['nft', 'legacy'];

/** Which iptables can write rules there at all; found once for each network namespace. */
const writers = new WeakMap<ProbeSandbox, Promise<Tools | undefined>>();

async function findWriter(sandbox: ProbeSandbox): Promise<Tools> {
  sandbox.network();
  const finding = writers.get(sandbox) ?? firstWriter();
  writers.set(sandbox, finding);
  const tools = await finding;
  if (tools === undefined) throw new CouldNotTell('no iptables works here, see iptables-nft');
  return tools;
}

/** Without any extension but that of its protocol. */
const PLAIN_RULE = `-A OUTPUT -p udp -m udp --dport ${FREE_PORT} -j ACCEPT`;

async function firstWriter(): Promise<Tools | undefined> {
  for (const variant of VARIANTS) {
    const tools = toolsOf('IPv4', variant);
    const failure = await tools.restore(`*filter\n-F OUTPUT\n${PLAIN_RULE}\nCOMMIT\n`);
    if (failure === undefined) return tools;
  }
  return undefined;
}

/** @param words `-m mark --mark 0x0/0x4000`: true of every packet */
export async function matchPacket(words: string, sandbox: ProbeSandbox): Promise<void> {
  const tools = await findWriter(sandbox);
  const rule = `-A OUTPUT -p udp -m udp --dport ${FREE_PORT} ${words} -j ACCEPT`;
  await withRule(tools, { table: 'filter', rule }, async () => {
    await sendDatagram(FREE_PORT);
    const counted = /^\[(\d+):\d+\] -A OUTPUT .*--dport /m.exec(
      await tools.save({ counters: true }),
    );
    if (Number(counted?.[1] ?? 0) === 0) throw new Error('the rule saw no packet');
  });
}

/** Of what no packet can be sent through without more of the kernel. */
export async function restoreRule(
  table: Table,
  rule: string,
  sandbox: ProbeSandbox,
): Promise<void> {
  await withRule(await findWriter(sandbox), { table, rule }, () => Promise.resolve());
}

/** The port is open: only the rule can refuse it. */
export async function rejectByRule(sandbox: ProbeSandbox): Promise<void> {
  const tools = await findWriter(sandbox);
  await withServer('127.0.0.1', async (port) => {
    const rule = `-A OUTPUT -p tcp -m tcp --dport ${port} -j REJECT`;
    await withRule(tools, { table: 'filter', rule }, async () => {
      const isConnected = await connectOnce('127.0.0.1', port).then(
        () => true,
        () => false,
      );
      if (isConnected) throw new Error('a rule that rejects lets a connection pass');
    });
  });
}

/** While `work` runs conntrack knows a connection, which a rule of IPv4 has made it look at. */
export async function whileTracked<T>(sandbox: ProbeSandbox, work: () => T): Promise<T> {
  const tools = await findWriter(sandbox);
  const rule = '-A OUTPUT -m conntrack --ctstate NEW -j ACCEPT';
  return await withRule(tools, { table: 'filter', rule }, async () => {
    await withServer('127.0.0.1', (port) => connectOnce('127.0.0.1', port));
    return work();
  });
}

type Table = 'nat' | 'filter';

/** No other rule is in the chain. A rule of nat is removed: the next iptables that is tried must not find it. */
async function withRule<T>(
  tools: Tools,
  { table, rule }: { readonly table: Table; readonly rule: string },
  work: () => Promise<T>,
): Promise<T> {
  const [, chain = ''] = /^-A (\S+)/.exec(rule) ?? [];
  const failure = await tools.restore(`*${table}\n-F ${chain}\n${rule}\nCOMMIT\n`);
  if (failure !== undefined) throw new Error(failure.reason);
  try {
    return await work();
  } finally {
    if (table === 'nat') await tools.restore(`*nat\n-F ${chain}\nCOMMIT\n`);
  }
}
