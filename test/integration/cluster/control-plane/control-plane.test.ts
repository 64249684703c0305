// SPDX-License-Identifier: Apache-2.0
// The harness itself: a real control plane starts quickly, rejects unauthorized requests, runs the real
// controllers and leaves nothing behind.
import { existsSync, readFileSync } from 'node:fs';
import type { V1EndpointConditions, V1EndpointSlice, V1Service } from '@kubernetes/client-node';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { listProcesses } from '../../../../src/sys/cgroup.ts';
import { run } from '../../../../src/sys/exec.ts';
import { listNamespaces } from '../../../../src/sys/netns.ts';
import { serviceObject } from '../../../support/objects.ts';
import { until, untilHolds } from '../../../support/until.ts';
import { ApiError, connectApi, type ListOf } from '../objects/api.ts';
import {
  addNode,
  addPod,
  addService,
  removePod,
  servicesPath,
  setPod,
  slicesPath,
  terminatePod,
} from '../objects/objects.ts';
import { prepareCluster } from '../programs/binaries.ts';
import { type ControlPlane, type KubeconfigRequest, startControlPlane } from './control-plane.ts';
import { type Identity, TOKENS } from './identities.ts';

const readiness = await prepareCluster();

describe.skipIf(!readiness.isReady)('a control plane', () => {
  let plane: ControlPlane;

  beforeAll(async () => {
    if (!readiness.isReady) return;
    plane = await startControlPlane(readiness.binaries);
  });
  afterAll(() => plane?.remove());

  /** The endpoints of a Service in one family: `10.1.1.10 ready`. */
  async function endpoints(service: string, family = 'IPv4'): Promise<string[]> {
    const selector = encodeURIComponent(`kubernetes.io/service-name=${service}`);
    const list = await plane.api.get<ListOf<V1EndpointSlice>>(
      `${slicesPath()}?labelSelector=${selector}`,
    );
    return list.items
      .filter(({ addressType }) => addressType === family)
      .flatMap((slice) => slice.endpoints ?? [])
      .map(({ addresses, conditions }) => `${addresses[0]} ${stateOf(conditions)}`)
      .sort();
  }

  /** The HTTP status of a GET: 200, or that of the error. */
  async function statusFor(token: string, path: string): Promise<number> {
    const { ca } = plane.certificates;
    const api = connectApi({ url: plane.server.localUrl, ca, token });
    try {
      await api.text(path);
      return 200;
    } catch (error) {
      if (error instanceof ApiError) return error.status;
      throw error;
    } finally {
      await api.close();
    }
  }

  test.each<{ identity: Identity; path: string; status: number }>([
    { identity: 'admin', path: '/api/v1/secrets', status: 200 },
    { identity: 'proxy', path: '/api/v1/services', status: 200 },
    { identity: 'proxy', path: '/api/v1/nodes', status: 200 },
    { identity: 'proxy', path: '/apis/discovery.k8s.io/v1/endpointslices', status: 200 },
    { identity: 'proxy', path: '/apis/networking.k8s.io/v1/servicecidrs', status: 200 },
    { identity: 'proxy', path: '/api/v1/secrets', status: 403 },
    { identity: 'proxy', path: '/api/v1/pods', status: 403 },
    { identity: 'nobody', path: '/api/v1/services', status: 403 },
    { identity: 'unknown', path: '/api/v1/services', status: 401 },
  ])('$identity gets $status for $path', async ({ identity, path, status }) => {
    expect(await statusFor(TOKENS[identity], path)).toBe(status);
  });

  test.each<{ name: string; request: Partial<KubeconfigRequest>; says: string }>([
    { name: 'a token', request: {}, says: 'yes' },
    { name: 'a client certificate', request: { credential: 'certificate' }, says: 'yes' },
    { name: 'no rights', request: { identity: 'nobody' }, says: 'no' },
    { name: 'an unknown token', request: { identity: 'unknown' }, says: 'logged in' },
    { name: 'a wrong authority', request: { authority: 'wrong' }, says: 'certificate signed by' },
  ])('a kubeconfig with $name is answered: $says', async ({ request, says }) => {
    const kubeconfig = plane.kubeconfig({ identity: 'proxy', from: 'here', ...request });
    const question = ['auth', 'can-i', 'list', 'services', '--all-namespaces'];
    const argv = ['--kubeconfig', kubeconfig, '--cache-dir', `${plane.directory}/none`];
    const { stdout, stderr } = await run(plane.binaries.kubectl, [...argv, ...question]);
    expect(stdout + stderr).toContain(says);
  });

  test('the real controller puts pods that a test declares ready into EndpointSlices', async () => {
    await addNode(plane.api, { name: 'one', addresses: ['192.168.77.1', 'fd00:77::1'] });
    const pods = [10, 11].map((host) => ({
      name: `web-${host}`,
      nodeName: 'one',
      ips: [`10.1.1.${host}`, `fd00:10:1::${host.toString(16)}`],
      labels: { app: 'web' },
    }));
    const [first] = pods;
    await addService(plane.api, 'web', {
      selector: { app: 'web' },
      ipFamilyPolicy: 'RequireDualStack',
    });
    for (const pod of pods) await addPod(plane.api, pod);
    const sees = (expected: readonly string[], family?: string) =>
      until(
        async () => {
          const seen = await endpoints('web', family);
          return String(seen) === String(expected);
        },
        { what: `endpoints ${expected}`, timeoutMs: 60_000 },
      );
    await sees(['10.1.1.10 ready', '10.1.1.11 ready']);
    await sees(['fd00:10:1::a ready', 'fd00:10:1::b ready'], 'IPv6');
    await setPod(plane.api, first!, 'not-ready');
    await sees(['10.1.1.10 not ready', '10.1.1.11 ready']);
    await terminatePod(plane.api, 'web-11');
    await sees(['10.1.1.10 not ready', '10.1.1.11 terminating']);
    await removePod(plane.api, 'web-11');
    await sees(['10.1.1.10 not ready']);
  });

  test('the token of a service account has the permissions of its bindings', async () => {
    await plane.kubectl(['create', 'serviceaccount', 'proxy']);
    const role = ['--clusterrole', 'system:node-proxier', '--serviceaccount', 'default:proxy'];
    await plane.kubectl(['create', 'clusterrolebinding', 'proxy', ...role]);
    const token = (await plane.kubectl(['create', 'token', 'proxy'])).trim();
    // The authorizer sees a new binding through its watch, so not at once.
    await until(async () => (await statusFor(token, '/api/v1/services')) === 200, {
      what: 'rights',
      timeoutMs: 60_000,
    });
    expect(await statusFor(token, '/api/v1/secrets')).toBe(403);
  });

  test('kubectl reads standard input and reports the error of the API server', async () => {
    const manifest = JSON.stringify(serviceObject('by-kubectl', { ports: [{ port: 1 }] }));
    expect(await plane.kubectl(['apply', '-f', '-'], manifest)).toContain('created');
    await expect(plane.kubectl(['get', 'service', 'absent'])).rejects.toThrow('NotFound');
  });

  test('a second API server serves the same objects', async () => {
    const second = await plane.addServer();
    const name = (service: V1Service): string => service.metadata?.name ?? '';
    const [here, there] = await Promise.all(
      [plane.api, second.api].map((api) => api.get<ListOf<V1Service>>(servicesPath())),
    );
    expect(there?.items.map(name)).toEqual(here?.items.map(name));
    await second.stop();
  });

  test('removing it leaves nothing behind', async () => {
    const { prefix, directory } = plane;
    const { cgroup } = plane.sandbox('any', plane.namespace);
    expect(listProcesses(cgroup)).not.toEqual([]);
    await plane.remove();
    expect(listNamespaces().filter((name) => name.startsWith(prefix))).toEqual([]);
    expect([cgroup, directory, `/run/fairlead-demo/${prefix}`].filter(existsSync)).toEqual([]);
  });

  test('one that fails to start leaves nothing behind', async () => {
    if (!readiness.isReady) return;
    const before = listNamespaces();
    const apiServerFlags = ['--no-such-flag'];
    const failed = startControlPlane(readiness.binaries, { apiServerFlags });
    await expect(failed).rejects.toThrow('unknown flag: --no-such-flag');
    const added = () =>
      listNamespaces().filter((name) => /^fl[0-9a-z]{6}-/.test(name) && !before.includes(name));
    await untilHolds(() => expect(added().filter((name) => !isOfOtherRun(name))).toEqual([]));
  });
});

/** Other runs may be in progress on this machine: each has a record of its process. */
function isOfOtherRun(namespace: string): boolean {
  const record = `/run/fairlead-demo/${namespace.split('-')[0]}/owner.json`;
  return existsSync(record) && JSON.parse(readFileSync(record, 'utf8')).pid !== process.pid;
}

function stateOf(conditions: V1EndpointConditions | undefined): string {
  if (conditions?.terminating === true) return 'terminating';
  return conditions?.ready === true ? 'ready' : 'not ready';
}
