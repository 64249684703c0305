// SPDX-License-Identifier: Apache-2.0
// Without /proc and without the addon, as on another system than Linux, the userspace engine starts and has its port map.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { start, stop } from '../../../../src/sys/exec.ts';
import { compiledPath } from '../../../../tools/lab/sandbox.ts';
import { service } from '../../../support/builders.ts';
import { askAgent } from '../../../support/fixture/proxies/ask-agent.ts';
import { untilHolds } from '../../../support/until.ts';

const HIDDEN = 'mount -t tmpfs none /proc && exec "$@"';

test('an agent without /proc and without the addon', async () => {
  const home = mkdtempSync(join(tmpdir(), 'fairlead-bare-'));
  const [manifests, runDir] = [join(home, 'manifests'), join(home, 'run')];
  for (const folder of [manifests, runDir]) mkdirSync(folder);
  const pod = { name: 'a', nodeName: 'n1', ipv4: '198.51.100.5', ipv6: '2001:db8::5' };
  const objects = service('web', { n: 10 }, [pod]).map((one) => JSON.stringify(one));
  for (const [index, text] of objects.entries()) {
    writeFileSync(join(manifests, `${index}.json`), text);
  }
  const log: string[] = [];
  const agent = start(
    'unshare',
    [
      ...['--mount', '--net', 'sh', '-c', `ip link set lo up && ${HIDDEN}`, 'sh'],
      ...['env', 'FAIRLEAD_ADDON=/nonexistent/fairlead.node'],
      ...[process.execPath, compiledPath('main.js'), 'run', '--engine', 'userspace'],
      ...['--manifests', manifests, '--run-dir', runDir, '--hostname-override', 'n1'],
    ],
    { onStderrLine: (line) => log.push(line) },
  );
  try {
    await untilHolds(() => expect(log.join('\n')).toContain('"msg":"ready"'));
    const rows = (await askAgent(runDir, '/v1/services')) as readonly object[];
    expect(rows).toContainEqual(
      expect.objectContaining({ reachedAt: expect.stringMatching(/^127\.0\.0\.1:\d+$/) }),
    );
    expect(log.filter((line) => /"level":"(?:warn|error)".*\/proc/.test(line))).toEqual([]);
  } finally {
    await stop(agent);
    rmSync(home, { recursive: true });
  }
});
