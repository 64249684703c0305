// SPDX-License-Identifier: Apache-2.0
// The right to annotate the agent's Node for direct return, of the component and of the chart: with the base alone the API server
// refuses it, and `status` says what is missing; with it the annotation is written, and `cleanup` takes it back. A kernel without
// direct return does not get it.
import { mkdirSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { ownPaths } from '../../../../tools/lab/agent.ts';
import { replaceObject } from '../../../support/dataplane/replaced-object.ts';
import type { TestNode } from '../../../support/node.ts';
import { helmTemplate, prepareHelm } from '../../../support/programs/helm.ts';
import { untilHolds } from '../../../support/until.ts';
import type { ControlPlane } from '../control-plane/control-plane.ts';
import { prepareCluster } from '../programs/binaries.ts';
import { type Launched, launch } from './launch.ts';
import { type ServedNode, startServedNode } from './served-node.ts';

const readiness = await prepareCluster();
const helm = readiness.isReady ? await prepareHelm() : readiness;
const KUSTOMIZE = fileURLToPath(new URL('../../../../deploy/kustomize', import.meta.url));

const NAME = 'fairlead.io/direct-return';
const RIGHTS = ['clusterrole', 'clusterrolebinding'].map(
  (kind) => `${kind}/fairlead-direct-return`,
);

describe.skipIf(!helm.isReady)('the right to annotate Nodes', () => {
  let served: ServedNode;
  let plane: ControlPlane;
  let node: TestNode;

  beforeAll(async () => {
    if (!readiness.isReady) return;
    served = await startServedNode(readiness.binaries);
    ({ plane, node } = served);
    await plane.kubectl(['apply', '-k', `${KUSTOMIZE}/base`]);
    const patch = {
      metadata: { annotations: { 'fairlead.io/forwarding': 'dsr' } },
      spec: { type: 'NodePort' },
    };
    await plane.kubectl(['patch', 'service', 'web', '--patch', JSON.stringify(patch)]);
  });
  afterAll(() => served?.remove());

  const annotation = async (): Promise<unknown> => {
    const { metadata } = JSON.parse(await plane.kubectl(['get', 'node', 'n1', '-o', 'json']));
    return metadata.annotations?.[NAME];
  };
  const problems = async (): Promise<string> =>
    (await node.status()).problems.map(({ reason }) => reason).join('\n');

  /** With the ServiceAccount's token alone. */
  async function startAgent(): Promise<Launched> {
    const token = await plane.kubectl(['create', 'token', 'fairlead', '-n', 'kube-system']);
    const path = join(plane.directory, 'account.kubeconfig');
    const cluster = {
      server: plane.server.nodeUrl,
      'certificate-authority': plane.certificates.ca,
    };
    const content = {
      ...{ apiVersion: 'v1', kind: 'Config', 'current-context': 'test' },
      clusters: [{ name: 'test', cluster }],
      users: [{ name: 'test', user: { token: token.trim() } }],
      contexts: [{ name: 'test', context: { cluster: 'test', user: 'test' } }],
    };
    writeFileSync(path, JSON.stringify(content), { mode: 0o600 });
    const { cgroupRoot, nodeName } = node.instance;
    const agent = launch(node, [
      ...['run', '--kubeconfig', path, '--hostname-override', nodeName],
      ...['--cgroup-root', cgroupRoot, ...ownPaths(node.instance)],
    ]);
    await agent.said('"msg":"ready"');
    return agent;
  }

  async function cleanup(): Promise<{ code: number; text: string }> {
    const { exited, log } = launch(node, ['cleanup', ...ownPaths(node.instance)]);
    return { code: await exited, text: log.join('\n') };
  }

  /** An API server learns of rights a moment later. */
  const untilMay = (answer: 'yes' | 'no'): Promise<void> =>
    untilHolds(async () => {
      const user = '--as=system:serviceaccount:kube-system:fairlead';
      const said = await plane
        .kubectl(['auth', 'can-i', 'patch', 'nodes', user])
        .catch((error: unknown) => String(error));
      expect(/code 1/.test(said) ? 'no' : said.trim()).toBe(answer);
    });

  async function applyComponent(): Promise<void> {
    const folder = join(plane.directory, 'kustomize');
    mkdirSync(folder, { recursive: true });
    const to = (name: string): string => relative(folder, join(KUSTOMIZE, name));
    const kustomization = { resources: [to('base')], components: [to('components/direct-return')] };
    writeFileSync(join(folder, 'kustomization.yaml'), JSON.stringify(kustomization));
    await plane.kubectl(['apply', '-k', folder]);
  }

  async function applyChart(): Promise<void> {
    const only = ['--show-only', 'templates/rights.yaml'];
    const set = [
      'kubeProxyConfig=true',
      'image.repository=registry.example/fairlead',
      'privileges.directReturn=true',
    ];
    const { stdout, stderr } = await helmTemplate(
      'program' in helm ? helm.program : '',
      ...[...only, ...set.flatMap((value) => ['--set', value])],
    );
    expect(stderr).toBe('');
    await plane.kubectl(['apply', '-f', '-'], stdout);
  }

  test.each([
    ['the component', applyComponent],
    ['the chart', applyChart],
  ])('comes from %s, and the agent says if it has not', async (_, grant) => {
    await untilMay('no');
    const agent = await startAgent();
    await untilHolds(async () => {
      expect(await problems()).toMatch(
        /^Node n1 could not be annotated for direct return \(.*403.*nodes.*right to patch nodes .*kubectl annotate node n1/,
      );
    });
    expect(await annotation()).toBeUndefined();
    await grant();
    await untilHolds(async () => expect(await annotation()).toBe('geneve/1'), 60_000);
    await untilHolds(async () => expect(await problems()).toBe(''));
    expect(await agent.stop()).toBe(0);
    await plane.kubectl(['delete', ...RIGHTS]);
    await untilMay('no');
    expect(await cleanup()).toEqual({
      code: 1,
      text: expect.stringMatching(
        /of Node n1 is not removed \(.*403.*run kubectl annotate node n1/,
      ),
    });
    expect(await annotation()).toBe('geneve/1');
    await grant();
    await untilMay('yes');
    expect(await cleanup()).toEqual({
      code: 0,
      text: expect.stringContaining('removed annotation'),
    });
    expect(await annotation()).toBeUndefined();
    await plane.kubectl(['delete', ...RIGHTS]);
  });

  test('a kernel that makes no room for headers gets none, and loses that of an earlier start', async () => {
    const restore = replaceObject('direct.bpf.o', 'no_room.bpf.o');
    onTestFinished(restore);
    await applyComponent();
    await untilMay('yes');
    await plane.kubectl(['annotate', 'node', 'n1', `${NAME}=geneve/1`]);
    const agent = await startAgent();
    await untilHolds(async () => expect(await annotation()).toBeUndefined(), 60_000);
    expect((await node.status()).limitations).toEqual([
      expect.objectContaining({ dataplane: 'bpf', code: 'DIRECT_RETURN' }),
    ]);
    expect(await problems()).toBe('');
    expect(await agent.stop()).toBe(0);
    expect(await annotation()).toBeUndefined();
    await plane.kubectl(['delete', ...RIGHTS]);
  });
});
