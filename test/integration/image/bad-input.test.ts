// SPDX-License-Identifier: Apache-2.0
// The image on a node that is not as it should be: one line says what is wrong and what to do, the exit code is the one of
// docs/errors.md, and the rules of the proxy before it are untouched until its own serve.
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { kubeadmConfig } from '../../support/kubeadm/config.ts';
import { untilHolds } from '../../support/until.ts';
import type { Without } from './agent.ts';
import { complaints } from './agent-node.ts';
import { type BrokenNode, type Files, startBrokenNode } from './broken-node.ts';
import { prepareImage, prepareRunnable } from './image.ts';

const NODE = ['--hostname-override', 'n1'];
const RUN = ['run', '--manifests', '/manifests', ...NODE];
const BPF = [...RUN, '--engine', 'bpf'];
const RULES = [...RUN, '--engine', 'iptables'];
const CONFIG = '/var/lib/kube-proxy';
/** Linux then calls itself 2.6. */
const UNDER = ['setarch', '--uname-2.6'];
const TOO_OLD = 'is older than 5.10, which the socket layer needs: boot a newer kernel';
const FULL: Files = { all: '-'.repeat(4096) };
const built = await prepareRunnable();
/** For the processor that this machine has not. */
const foreign = await prepareImage(process.arch === 'x64' ? 'arm64' : 'amd64');

describe.skipIf(!built.isReady)('on a node that is not as it should be', () => {
  let node: BrokenNode;

  beforeAll(async () => {
    if (built.isReady) node = await startBrokenNode(built.image);
  });
  afterEach(() => node?.reset());
  afterAll(() => node?.remove());

  interface Folder {
    readonly at: string;
    readonly files?: Files;
    readonly limits?: string;
  }
  async function having(
    args: readonly string[],
    { at, files = {}, limits }: Folder,
  ): Promise<Without> {
    return {
      args,
      instead: { [at]: await node.folder(`at${at.replaceAll('/', '-')}`, files, limits) },
    };
  }
  const configMap = (kubeconfig: string): Promise<Without> => {
    const file = kubeadmConfig(`${CONFIG}/kubeconfig.conf`, '10.1.0.0/16');
    const files = { 'config.conf': file, 'kubeconfig.conf': kubeconfig };
    return having(['run', '--config', `${CONFIG}/config.conf`, ...NODE], { at: CONFIG, files });
  };

  test.each<readonly [string, () => Promise<Without>, number, string]>([
    [
      'without a bpf file system',
      () => having(BPF, { at: '/sys/fs/bpf' }),
      5,
      'no bpf file system is mounted at /sys/fs/bpf',
    ],
    [
      'without cgroup v2',
      () => having(BPF, { at: '/host/sys/fs/cgroup' }),
      5,
      'no cgroup v2 hierarchy is mounted',
    ],
    ['with an old kernel', async () => ({ args: BPF, under: UNDER }), 5, TOO_OLD],
    [
      'without an inode for the socket',
      () => having(BPF, { at: '/run/fairlead', limits: 'nr_inodes=1' }),
      1,
      'the file system of --run-dir /run/fairlead is full',
    ],
    ['with a kubeconfig that is no YAML', () => configMap('{'), 2, 'kubeconfig.conf'],
    [
      'with a kubeconfig that has no such context',
      () => configMap('apiVersion: v1\nkind: Config\ncurrent-context: other\n'),
      2,
      'kubeconfig.conf',
    ],
    ['with a kubeconfig that is empty', () => configMap(''), 2, 'kubeconfig.conf'],
  ])('%s: one line, its exit code, and the old rules serve', async (_what, having, code, line) => {
    const before = await node.rules();
    const agent = await node.start(await having());
    expect(await agent.exited).toBe(code);
    const lines = agent.log.filter((each) => !each.startsWith('{'));
    expect(lines).toEqual([expect.stringContaining(line)]);
    expect(await node.rules()).toEqual(before);
    expect(await node.answers()).toEqual({ 'web-1': 5 });
  });

  test.each<readonly [string, () => Promise<Without>]>([
    ['BPF maps', () => having(BPF, { at: '/run/fairlead', files: FULL, limits: 'size=4k' })],
    ['rules', () => having(RULES, { at: '/run/fairlead', files: FULL, limits: 'size=4k' })],
  ])('the disk of /run/fairlead is full: %s serve', async (_what, having) => {
    const agent = await node.start(await having());
    await agent.said('"msg":"ready"');
    await untilHolds(async () => expect(await node.answers()).toEqual({ 'web-1': 5 }));
    expect((await agent.exec('fairlead', 'status')).stdout).toContain('in sync');
  });

  test('an old kernel, --engine auto: rules serve, and a warning says why', async () => {
    const agent = await node.start({ args: RUN, under: UNDER });
    await agent.said('"msg":"ready"');
    expect(complaints(agent)).toContainEqual(expect.stringContaining(TOO_OLD));
    expect(await node.answers()).toEqual({ 'web-1': 5 });
  });

  test.each([
    ['its --run-dir', [], 'another fairlead (pid '],
    [
      'its --bpf-root',
      ['--run-dir', '/run/fairlead/other'],
      '--bpf-root /sys/fs/bpf/fairlead is in use',
    ],
  ])('a second agent with %s: refused, the first one serves', async (_what, flags, line) => {
    const first = await node.start({ args: BPF });
    await first.said('"msg":"ready"');
    const second = await node.start({ args: [...BPF, ...flags] });
    expect(await second.exited).toBe(1);
    expect(second.log.filter((each) => !each.startsWith('{'))).toEqual([
      expect.stringContaining(line),
    ]);
    expect(await node.answers()).toEqual({ 'web-1': 5 });
    expect((await first.exec('fairlead', 'status')).stdout).toContain('in sync');
  });

  test.skipIf(!foreign.isReady)(
    'an image of another processor: the kernel refuses it',
    async () => {
      const before = await node.rules();
      const agent = await node.start({ args: BPF }, 'image' in foreign ? foreign.image : undefined);
      expect(await agent.exited).toBe(1);
      expect(agent.log).toEqual([expect.stringMatching(/exec.*: exec format error$/i)]);
      expect(await node.rules()).toEqual(before);
      expect(await node.answers()).toEqual({ 'web-1': 5 });
    },
  );

  test('rules of another proxy: a warning names them, and they stay', async () => {
    const before = await node.rules();
    const agent = await node.start({ args: BPF });
    await agent.said('"msg":"ready"');
    expect(complaints(agent).join('\n')).toMatch(/kube-proxy/);
    expect(await node.rules()).toEqual(before);
  });
});
