// SPDX-License-Identifier: Apache-2.0
// Invalid kubeconfigs, and kubeconfigs that point at something broken. If retrying cannot help, the agent exits
// with one line and the code of a usage error; otherwise it logs one line, retries and recovers by itself.
// Traffic continues in both cases.
import { chmodSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { ipBatch } from '../../../../src/sys/netns.ts';
import { ownPaths, runCommand } from '../../../../tools/lab/agent.ts';
import type { RunningLoad } from '../../../../tools/lab/traffic.ts';
import { untilHolds } from '../../../support/until.ts';
import { type Launched, launch } from '../agent/launch.ts';
import { type ServedNode, startServedNode } from '../agent/served-node.ts';
import { inBase64 } from '../control-plane/certificates.ts';
import { TOKENS } from '../control-plane/identities.ts';
import { prepareCluster } from '../programs/binaries.ts';
import {
  changed,
  expiredAuthority,
  expiredClient,
  type KubeconfigParts,
} from './bad-kubeconfigs.ts';

const readiness = await prepareCluster();

describe.skipIf(!readiness.isReady)('a bad kubeconfig', () => {
  let served: ServedNode;
  let folder: string;
  let hosts: string;
  let load: RunningLoad;
  let agent: Launched | undefined;

  beforeAll(async () => {
    if (!readiness.isReady) return;
    served = await startServedNode(readiness.binaries);
    folder = join(served.plane.directory, 'bad');
    mkdirSync(folder);
    hosts = join(folder, 'hosts');
    const first = start(good());
    await first.said('"msg":"ready"');
    await untilHolds(async () => expect(await served.reached()).toEqual(['web-1']), 60_000);
    await first.stop();
  });
  afterAll(() => served?.remove());
  beforeEach(async () => {
    load = await served.node.client().startLoad(served.web);
  });
  afterEach(async () => {
    if (agent !== undefined) process.stdout.write(`${reasons(agent).join('\n')}\n`);
    await agent?.stop();
    agent = undefined;
    const { failures, connections } = await load.stop();
    expect(failures).toEqual([]);
    expect(connections).toBeGreaterThan(50);
  });

  const good = (): string => served.plane.kubeconfig({ identity: 'proxy', from: 'node' });
  const start = (kubeconfig: string, limits: readonly string[] = []): Launched => {
    const { instance } = served.node;
    const args = ['run', '--kubeconfig', kubeconfig, '--hostname-override', 'n1'];
    return launch(
      served.node,
      [...args, '--cgroup-root', instance.cgroupRoot, ...ownPaths(instance)],
      limits,
    );
  };
  const reasons = ({ log }: Launched): string[] =>
    log
      .filter((line) => line.includes('"level":"warn"'))
      .map((line) => (JSON.parse(line) as { reason: string }).reason);
  const write = (text: string): string => {
    const path = join(folder, 'kubeconfig');
    writeFileSync(path, text);
    return path;
  };
  const writeChanged = (change: (parts: KubeconfigParts) => void): string =>
    write(changed(good(), change));

  test.each<{ name: string; path: () => string; says: string; limits?: readonly string[] }>([
    {
      name: 'that does not exist',
      path: () => '/nonexistent/kubeconfig',
      says: 'kubeconfig /nonexistent/kubeconfig cannot be read: it does not exist: correct the path, or mount the file',
    },
    {
      name: 'that is a folder',
      path: () => folder,
      says: 'kubeconfig FOLDER cannot be read: it is a folder: name the file in it',
    },
    {
      name: 'without read permission',
      path: () => {
        const path = join(folder, 'secret');
        writeFileSync(path, '');
        chmodSync(path, 0);
        return path;
      },
      limits: ['setpriv', '--bounding-set=-dac_override,-dac_read_search'],
      says: 'kubeconfig FOLDER/secret cannot be read: permission denied: let the user of this process read it',
    },
    {
      name: 'that is not YAML',
      path: () => write('clusters:\n- name: [x\n'),
      says: 'kubeconfig FOLDER/kubeconfig cannot be parsed: deficient indentation (3:1)',
    },
    {
      name: 'that is empty',
      path: () => write(''),
      says: 'kubeconfig FOLDER/kubeconfig cannot be parsed: expected a document, but the input is empty',
    },
    {
      name: 'that is YAML but not a kubeconfig',
      path: () => write('apiVersion: v1\nkind: Config\n'),
      says: 'kubeconfig FOLDER/kubeconfig: it sets no current-context: set it to one of its contexts',
    },
    {
      name: 'with an unknown context',
      path: () => writeChanged(({ top }) => Object.assign(top, { 'current-context': 'other' })),
      says: 'kubeconfig FOLDER/kubeconfig: current-context "other" is not one of its contexts',
    },
    {
      name: 'whose context names an undefined cluster',
      path: () => writeChanged(({ context }) => Object.assign(context, { cluster: 'other' })),
      says: 'kubeconfig FOLDER/kubeconfig: context "test" names cluster "other", which the file does not define',
    },
    {
      name: 'whose context names an undefined user',
      path: () => writeChanged(({ context }) => Object.assign(context, { user: 'other' })),
      says: 'kubeconfig FOLDER/kubeconfig: context "test" names user "other", which the file does not define',
    },
    {
      name: 'whose server is not a URL',
      path: () => writeChanged(({ cluster }) => Object.assign(cluster, { server: 'here' })),
      says: 'kubeconfig FOLDER/kubeconfig: server must be an http or https URL, not "here"',
    },
  ])('$name ends the start', async ({ path, says, limits = [] }) => {
    const refused = start(path(), limits);
    expect(await refused.exited).toBe(2);
    expect(refused.log).toEqual([`fairlead: ${says.replaceAll('FOLDER', folder)}`]);
    await untilHolds(async () => expect((await load.read()).connections).toBeGreaterThan(50));
  });

  interface Failure {
    readonly name: string;
    /** Returns the path of the initial kubeconfig. */
    make(): Promise<string>;
    repair(): Promise<unknown>;
    /** What follows `API server URL: ` in the log. */
    readonly says: RegExp;
    readonly limits?: () => readonly string[];
  }
  const mendFile = async (): Promise<unknown> => writeChanged(() => undefined);
  const wire = (change: string): Promise<void> =>
    ipBatch([`neigh ${change}`], served.node.instance.sandbox.namespace);
  const certificateOf = (data: string) => ({
    'client-certificate-data': data,
    'client-key-data': inBase64(served.plane.certificates.proxy.key),
    token: undefined,
  });

  test.each<Failure>([
    {
      name: 'an unknown token',
      make: async () => writeChanged(({ user }) => Object.assign(user, { token: TOKENS.unknown })),
      repair: mendFile,
      says: /^HTTP 401: Unauthorized; renew the credentials in FOLDER\/kubeconfig: they are read again on each retry$/,
    },
    {
      name: 'a client certificate that has expired',
      make: async () => {
        const data = await expiredClient(folder, served.plane.certificates);
        return writeChanged(({ user }) => Object.assign(user, certificateOf(data)));
      },
      repair: async () => {
        const data = inBase64(served.plane.certificates.proxy.certificate);
        return writeChanged(({ user }) => Object.assign(user, certificateOf(data)));
      },
      says: /^HTTP 401: Unauthorized: the client certificate expired at 20\S+Z; renew the credentials in FOLDER\/kubeconfig/,
    },
    {
      name: 'a CA that has expired',
      make: async () => {
        const data = await expiredAuthority(folder, served.plane.certificates);
        return writeChanged(({ cluster }) =>
          Object.assign(cluster, { 'certificate-authority-data': data }),
        );
      },
      repair: mendFile,
      says: /^certificate has expired; renew the server's certificate, or the CA in FOLDER\/kubeconfig$/,
    },
    {
      name: 'the CA of another cluster',
      make: async () => {
        const data = inBase64(served.plane.certificates.wrongCa);
        return writeChanged(({ cluster }) =>
          Object.assign(cluster, { 'certificate-authority-data': data }),
        );
      },
      repair: mendFile,
      says: /^unable to verify the first certificate; the CA in FOLDER\/kubeconfig did not sign the server certificate/,
    },
    {
      name: 'a server that is down',
      make: async () => {
        await served.plane.server.kill();
        return good();
      },
      repair: () => served.plane.server.start(),
      says: /^connect ECONNREFUSED; check that the server is running and the port is correct$/,
    },
    {
      name: 'a host name that does not resolve',
      make: async () => {
        writeFileSync(hosts, '127.0.0.1 localhost\n');
        // Addresses remembered from an earlier run would be used instead.
        rmSync(join(served.node.instance.runDir, 'api-servers.json'), { force: true });
        const server = 'https://kubernetes.default.svc:6443';
        return writeChanged(({ cluster }) => Object.assign(cluster, { server }));
      },
      limits: () => [
        ...['unshare', '-m', 'sh', '-c', 'mount --bind "$1" /etc/hosts; shift; exec "$@"'],
        ...['sh', hosts],
      ],
      repair: async () => writeFileSync(hosts, '192.168.78.250 kubernetes.default.svc\n'),
      says: /^getaddrinfo (EAI_AGAIN|ENOTFOUND) kubernetes\.default\.svc; this node cannot resolve the name/,
    },
    {
      name: 'an address that drops all packets',
      make: async () => {
        await wire('replace 192.168.78.250 lladdr 02:00:00:00:00:01 nud permanent dev plane');
        return good();
      },
      repair: () => wire('del 192.168.78.250 dev plane'),
      says: /^(Connect Timeout Error \(10000 ms\)|connect ETIMEDOUT); no reply/,
    },
  ])('$name: waited for, said once, and mended', async ({ make, repair, says, limits }) => {
    agent = start(await make(), limits?.());
    try {
      const line = await agent.said('cannot watch the API server', 60_000);
      const { kinds, reason, level } = JSON.parse(line) as Record<string, string>;
      expect({ kinds, level }).toEqual({ kinds: 'all', level: 'warn' });
      const [, server, why] = /^API server (\S+): (.*)$/.exec(reason ?? '') ?? [];
      expect(server).toMatch(/^https:/);
      expect(why?.replaceAll(folder, 'FOLDER')).toMatch(says);
      const { stdout, code } = await runCommand(served.node.instance, [
        ...['status', '--run-dir', served.node.instance.runDir],
      ]);
      expect(stdout).toContain(`Problem:    ${reason} (kinds: all)`);
      expect(code).toBe(3);
    } finally {
      await repair();
    }
    await agent.said('watching the API server again', 60_000);
    await agent.said('"msg":"ready"', 60_000);
    expect(reasons(agent)).toHaveLength(1);
    const { problems, source } = await served.node.status();
    expect({ problems, isSynced: source.cluster?.isSynced }).toEqual({
      problems: [],
      isSynced: true,
    });
  });
});
