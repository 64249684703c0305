// SPDX-License-Identifier: Apache-2.0
// `fairlead compare` on a node with the real kube-proxy in mode ipvs (modes.sh): the plan with ipvs, and ipvs with what mode nftables has
// written for the same objects. And what it says of ipvs is what packets show that are sent through it.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { Answer } from '../../../../../src/compare/answer.ts';
import { numberOf, rangeOf } from '../../../../../src/compare/rules/ranges.ts';
import type { ClientClass } from '../../../../../src/compare/walk/path.ts';
import {
  IPVS_FILES,
  IPVS_NODE,
  type IpvsTexts,
  ipvsSide,
} from '../../../../unit/compare/ipvs/recorded.ts';
import { prepareCluster } from '../../../cluster/programs/binaries.ts';
import { runLab } from '../lab.ts';
import { ipvsTools } from './ipvs-tools.ts';

const readiness = await prepareCluster();

const CLIENTS: Readonly<Record<string, Pick<ClientClass, 'source' | 'device' | 'isOwn'>>> = {
  pod: { source: '10.1.1.9', device: 'vp', isOwn: false },
  node: { source: '192.0.2.11', device: undefined, isOwn: true },
  outside: { source: '192.0.2.200', device: 'eth0', isOwn: false },
};

/** `10.1.1.5:8080>10.1.1.9`: who answers, and which client it sees; `node` is an address of this node. */
function expectedOf({ verdict, backends }: Answer, source: string): string {
  if (verdict === 'reject') return 'ECONNREFUSED';
  if (verdict === 'drop') return 'TIMEOUT';
  return backends
    .map(({ text, masquerade }) => `${text}>${masquerade === true ? 'node' : source}`)
    .join(' ');
}

function seenOf(answer: string | undefined, isNode: (address: string) => boolean): string {
  const outcomes = (answer ?? 'not asked').replace(/=\d+/g, '').split(' ');
  const seen = outcomes.map((one) => {
    const [who, client] = one.split('>');
    return client === undefined ? who : `${who}>${isNode(client) ? 'node' : client}`;
  });
  return [...new Set(seen)].sort().join(' ');
}

describe.skipIf(!readiness.isReady)('kube-proxy in mode ipvs', async () => {
  if (!readiness.isReady) return;
  const lab = await runLab(
    '6.12',
    ['modes.sh', 'FOLDER', readiness.binaries.kubeProxy],
    ipvsTools(),
  );
  const textOf = (name: string): string => readFileSync(join(lab.guest.folder, name), 'utf8');

  test('the script ran to its end', () => expect(lab.code, lab.output).toBe(0));

  test.each(['plan-ipvs', 'ipvs-nftables'])('%s: no difference without a known reason', (sides) => {
    const { comparisons } = JSON.parse(textOf(`${sides}.json`));
    const open = comparisons.flatMap(({ differences, unread }: never) => [
      ...(differences as { reason: string | null }[]).filter(({ reason }) => reason === null),
      ...(unread as string[]),
    ]);
    expect(open).toEqual([]);
    expect(lab.answer(sides)).toBe('0');
    expect(comparisons[0].classes).toBeGreaterThan(5_000);
  });

  test('what packets show is what is said of their class', () => {
    const texts = Object.fromEntries(IPVS_FILES.map((name) => [name, textOf(name)])) as IpvsTexts;
    const side = ipvsSide(texts);
    const isVirtual = new Set(side.addresses());
    const asked = lab.output.split('\n').flatMap((line) => {
      const [, client = '', address = '', port = ''] =
        /^(pod|node|outside) ([\d.]+) (\d+): /.exec(line) ?? [];
      return client === '' ? [] : [{ client, address, port }];
    });
    const wrong = asked.flatMap(({ client, address, port }) => {
      const one = CLIENTS[client]!;
      const classOf = { ...one, sources: rangeOf(one.source)!, at: numberOf(one.source) };
      const destination = { address, protocol: 'TCP', port: Number(port) } as const;
      const [answer] = side.answers(destination, [classOf]);
      // A process that has chosen no address sends from that of the Service.
      const source = one.device === undefined && isVirtual.has(address) ? address : one.source;
      const isNode = (text: string): boolean => text !== source && IPVS_NODE.own.includes(text);
      const wanted = expectedOf(answer!, source);
      const seen = seenOf(lab.answer(`${client} ${address} ${port}`), isNode);
      return seen === wanted ? [] : [`${client} ${address}:${port}: ${seen}, not ${wanted}`];
    });
    expect(wrong).toEqual([]);
    expect(asked.length).toBeGreaterThan(50);
  });
});
