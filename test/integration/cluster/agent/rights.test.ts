// SPDX-License-Identifier: Apache-2.0
// The least privileges an agent needs: three capabilities on the node and the role system:node-proxier. With
// fewer it reports what is missing, and the programmed state stays.
import { copyFileSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { FairleadError } from '../../../../src/errors.ts';
import { explainMissingCapabilities } from '../../../../src/instance/preflight/checks.ts';
import { ownPaths } from '../../../../tools/lab/agent.ts';
import { getInSandbox } from '../../../support/http/get.ts';
import type { TestNode } from '../../../support/node.ts';
import { untilHolds } from '../../../support/until.ts';
import type { ControlPlane } from '../control-plane/control-plane.ts';
import type { Identity } from '../control-plane/identities.ts';
import { prepareCluster } from '../programs/binaries.ts';
import { launch } from './launch.ts';
import { type ServedNode, startServedNode } from './served-node.ts';

const readiness = await prepareCluster();
const KUSTOMIZE = fileURLToPath(new URL('../../../../deploy/kustomize', import.meta.url));

const NEEDED = ['bpf', 'net_admin', 'perfmon'];
/** Runs a program as root with these capabilities and no way to gain others. */
const only = (capabilities: readonly string[]): string[] => [
  'setpriv',
  `--bounding-set=${['-all', ...capabilities.map((name) => `+${name}`)].join()}`,
  '--inh-caps=-all',
];

/**
 * Runs a program where a Pod's service account is mounted, as far as a mount namespace can do it. What
 * tests keep below /run stays there.
 */
const AS_IN_POD = `set -e
mount -n -t tmpfs tmpfs /mnt
mkdir -p /mnt/fairlead-demo /mnt/secrets/kubernetes.io/serviceaccount
mount -n --rbind /run/fairlead-demo /mnt/fairlead-demo
cp "$1"/* /mnt/secrets/kubernetes.io/serviceaccount
mount -n --move /mnt /run
shift
exec "$@"`;

describe.skipIf(!readiness.isReady)('rights', () => {
  let served: ServedNode;
  let plane: ControlPlane;
  let node: TestNode;

  beforeAll(async () => {
    if (!readiness.isReady) return;
    served = await startServedNode(readiness.binaries);
    ({ plane, node } = served);
  });
  afterAll(() => served?.remove());

  const argsFor = (identity: Identity): string[] => {
    const { instance } = node;
    const kubeconfig = plane.kubeconfig({ identity, from: 'node' });
    return [
      ...['run', '--kubeconfig', kubeconfig, '--hostname-override', instance.nodeName],
      ...['--cgroup-root', instance.cgroupRoot, ...ownPaths(instance)],
    ];
  };
  const reached = (): Promise<string[]> => served.reached();

  test('three capabilities and system:node-proxier are enough', async () => {
    const agent = launch(node, argsFor('proxy'), only(NEEDED));
    await agent.said('"msg":"ready"');
    await untilHolds(async () => expect(await reached()).toEqual(['web-1']), 60_000);
    expect((await node.status()).problems).toEqual([]);
    expect(agent.log.filter((line) => /"level":"(warn|error)"/.test(line))).toEqual([]);
    expect(await agent.stop()).toBe(0);
  });

  test.each(NEEDED)(
    'without CAP_%s it exits, names the capability and changes nothing',
    async (missing) => {
      const agent = launch(node, argsFor('proxy'), only(NEEDED.filter((name) => name !== missing)));
      expect(await agent.exited).toBe(5);
      const last = agent.log.at(-1);
      expect(last).toBe(
        `fairlead: this process lacks CAP_${missing.toUpperCase()}: run it as root, or with CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON`,
      );
      expect(await reached()).toEqual(['web-1']);
    },
  );

  test('forbidden by the API server: a clear problem, and the programmed state stays', async () => {
    const agent = launch(node, argsFor('nobody'), only(NEEDED));
    await untilHolds(async () => {
      const { problems, isReady } = await node.status();
      expect(isReady).toBe(false);
      // A kind that not every server has is not a problem.
      expect(problems).toMatchObject([
        {
          kinds: 'Service, EndpointSlice, Node',
          reason: expect.stringMatching(/403: user "fairlead-test:nobody" may not read them; bind/),
        },
      ]);
    });
    expect(await reached()).toEqual(['web-1']);
    expect(await agent.stop()).toBe(0);
    expect(await reached()).toEqual(['web-1']);
  });

  test.each([
    ['base', 'fairlead'],
    ['kubeadm', 'fairlead'],
    ['k3s', 'fairlead'],
    ['kind', 'fairlead'],
    ['beside-kube-proxy', 'fairlead'],
    ['canary', 'fairlead'],
    ['remove', 'fairlead'],
    ['canary-remove', 'fairlead-remove'],
  ])('an API server accepts deploy/kustomize/%s without a warning', async (name, object) => {
    const rendered = await plane.kubectl(['kustomize', `${KUSTOMIZE}/${name}`]);
    const dryRun = ['--server-side', '--dry-run=server', '--validate=strict', '-f', '-'];
    const applied = await plane.kubectl(['apply', ...dryRun], rendered);
    expect(applied.trim().split('\n')).toEqual([
      `serviceaccount/${object} serverside-applied (server dry run)`,
      `clusterrolebinding.rbac.authorization.k8s.io/${object} serverside-applied (server dry run)`,
      `daemonset.apps/${object} serverside-applied (server dry run)`,
    ]);
  });

  test('the ServiceAccount has exactly the permissions that the agent uses', async () => {
    await plane.kubectl(['apply', '-k', `${KUSTOMIZE}/base`]);
    const user = '--as=system:serviceaccount:kube-system:fairlead';
    const can = async (...question: string[]): Promise<string> => {
      const answer = await plane
        .kubectl(['auth', 'can-i', ...question, '-A', user])
        .catch((error: unknown) => String(error));
      return /code 1/.test(answer) ? 'no' : answer.trim();
    };
    for (const kind of ['services', 'endpointslices.discovery.k8s.io', 'nodes']) {
      expect([kind, await can('list', kind), await can('watch', kind)]).toEqual([
        kind,
        'yes',
        'yes',
      ]);
    }
    expect(await can('create', 'events.events.k8s.io')).toBe('yes');
    expect(await can('update', 'services')).toBe('no');
    expect(await can('get', 'secrets')).toBe('no');
  });

  test('as in a Pod: with its token, the role and the capabilities of deploy/kustomize/base', async () => {
    await plane.kubectl(['apply', '-k', `${KUSTOMIZE}/base`]);
    const folder = join(plane.directory, 'service-account');
    mkdirSync(folder);
    const token = await plane.kubectl(['create', 'token', 'fairlead', '-n', 'kube-system']);
    writeFileSync(join(folder, 'token'), token.trim());
    copyFileSync(plane.certificates.ca, join(folder, 'ca.crt'));
    const { hostname, port } = new URL(plane.server.nodeUrl);
    const env = [`KUBERNETES_SERVICE_HOST=${hostname}`, `KUBERNETES_SERVICE_PORT=${port}`];
    const [, ...args] = argsFor('proxy').filter((arg) => !/kubeconfig/.test(arg));
    const capabilities = await grantedCapabilities();
    const pod = ['unshare', '-m', 'sh', '-c', AS_IN_POD, 'sh', folder, 'env', ...env];
    const agent = launch(node, ['run', ...args], [...pod, ...only(capabilities)]);
    await agent.said('"msg":"ready"');
    const { source, problems } = await node.status();
    expect(source.cluster).toMatchObject({ winner: 'environment', isSynced: true });
    expect(problems).toEqual([]);
    expect((await getInSandbox(node.instance.sandbox, 10256, '/readyz')).status).toBe(200);
    expect(await reached()).toEqual(['web-1']);
    expect(await agent.stop()).toBe(0);
  });

  async function grantedCapabilities(): Promise<string[]> {
    const path = '{.spec.template.spec.containers[0].securityContext.capabilities}';
    const get = ['get', 'daemonset', 'fairlead', '-n', 'kube-system', '-o', `jsonpath=${path}`];
    const { add, drop } = JSON.parse(await plane.kubectl(get)) as Record<string, string[]>;
    expect(drop).toEqual(['ALL']);
    return add!.map((name) => name.toLowerCase());
  }
});

const statusWith = (...bits: readonly number[]): string =>
  `Name:\tnode\nCapEff:\t${bits.reduce((sum, bit) => sum | (1n << BigInt(bit)), 0n).toString(16)}\n`;

test.each([
  ['NO_PRIVILEGE', [], 'this process lacks CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON: run it as root'],
  ['NO_PRIVILEGE', [39, 38], 'this process lacks CAP_NET_ADMIN: run it as root'],
  ['NO_PRIVILEGE', [39, 12, 38], 'as it came'],
  ['NO_PRIVILEGE', [21], 'as it came'],
  ['PROGRAM_REFUSED', [39, 12], 'this process lacks CAP_PERFMON: run it as root'],
  ['PROGRAM_REFUSED', [39, 12, 38], 'as it came'],
  ['NO_BTF', [], 'as it came'],
] as const)('%s with capabilities %j says: %s', (code, bits, text) => {
  const named = explainMissingCapabilities(
    new FairleadError(code, 'as it came'),
    statusWith(...bits),
  );
  expect(named).toMatchObject({ code, message: expect.stringMatching(new RegExp(`^${text}`)) });
});
