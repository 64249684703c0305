// SPDX-License-Identifier: Apache-2.0
// As on a laptop with another system than Linux, as far as Linux can be that: without /proc, the addon, capabilities and root, and with
// a Node that calls itself macOS, the userspace engine starts, and serves TCP and UDP at the ports that `services -o wide` shows.
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { run, start, stop } from '../../../../src/sys/exec.ts';
import { compiledPath } from '../../../../tools/lab/sandbox.ts';
import { service } from '../../../support/builders.ts';
import { untilHolds } from '../../../support/until.ts';

/** An address of the node. */
const POD = '198.51.100.5';
const NOBODY = '65534';
const WITHOUT = `setpriv --reuid ${NOBODY} --regid ${NOBODY} --clear-groups --inh-caps=-all --bounding-set=-all --no-new-privs`;
const AS_DARWIN = `Object.defineProperty(process, 'platform', { value: 'darwin' });\n`;
/** In the agent's network namespace: answers by TCP and UDP, asks the ports that come on standard input, and ends with that. */
const PEER = `
const { createServer, connect } = require('node:net');
const { createSocket } = require('node:dgram');
createServer((socket) => socket.end('tcp')).listen(8080, '${POD}');
const udp = createSocket('udp4');
udp.on('message', (_text, { port, address }) => udp.send('udp', port, address));
udp.bind(5353, '${POD}');
process.stdin.on('end', () => process.exit());
process.stdin.on('data', (text) => {
  const [tcp, port] = String(text).trim().split(' ').map(Number);
  const say = (answer) => console.log('answer ' + String(answer));
  connect(tcp, '127.0.0.1').on('data', say).on('error', say);
  createSocket('udp4').on('message', say).on('error', say).send('?', port, '127.0.0.1');
});`;

let home: string;
let manifests: string;
let runDir: string;

beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), 'fairlead-bare-'));
  chmodSync(home, 0o755);
  [manifests, runDir] = [join(home, 'manifests'), join(home, 'run')];
  for (const folder of [manifests, runDir]) mkdirSync(folder);
  chmodSync(runDir, 0o777);
  const pod = { name: 'a', nodeName: 'n1', ipv4: POD, ipv6: '2001:db8::5' };
  const dns = { n: 53, port: 53, targetPort: 5353, protocol: 'UDP' } as const;
  const objects = [
    ...service('web', { n: 10, targetPort: 8080 }, [pod]),
    ...service('dns', dns, [pod]),
  ];
  for (const [index, one] of objects.entries()) {
    writeFileSync(join(manifests, `${index}.json`), JSON.stringify(one));
  }
  writeFileSync(join(home, 'darwin.cjs'), AS_DARWIN);
  writeFileSync(join(home, 'peer.cjs'), PEER);
});
afterEach(() => rmSync(home, { recursive: true }));

/** Ports by the name of the Service, as a person reads them. */
async function portsShown(): Promise<(name: string) => string> {
  const { stdout } = await run(process.execPath, [
    ...[compiledPath('main.js'), 'services', '-o', 'wide', '--run-dir', runDir],
  ]);
  return (name) => new RegExp(`\\b${name}\\b.* 127\\.0\\.0\\.1:(\\d+)`).exec(stdout)?.[1] ?? '';
}

test('an agent without Linux: no /proc, no addon, no capability', async () => {
  const log: string[] = [];
  const answers: string[] = [];
  const agent = start(
    'unshare',
    [
      ...['--mount', '--net', 'sh', '-c'],
      // The peer reads the shell's standard input, with whose end it ends: a shell gives none to what it starts in the background.
      `ip address add ${POD} dev lo && ip link set lo up && exec 3<&0; ${process.execPath} "$0" <&3 & mount -t tmpfs none /proc && exec 3<&- ${WITHOUT} "$@"`,
      ...[join(home, 'peer.cjs'), 'env', 'FAIRLEAD_ADDON=/nonexistent/fairlead.node'],
      ...[process.execPath, '--require', join(home, 'darwin.cjs'), compiledPath('main.js'), 'run'],
      ...['--engine', 'userspace', '--manifests', manifests, '--run-dir', runDir],
      ...['--hostname-override', 'n1'],
    ],
    { onStderrLine: (line) => log.push(line), onStdoutLine: (line) => answers.push(line) },
  );
  try {
    await untilHolds(() => expect(log.join('\n')).toContain('"msg":"ready"'));
    const shown = await portsShown();
    agent.writeLine(`${shown('web')} ${shown('dns')}`);
    await untilHolds(() => expect([...answers].sort()).toEqual(['answer tcp', 'answer udp']));
    expect(log.filter((line) => /"level":"(?:warn|error)".*\/proc/.test(line))).toEqual([]);
  } finally {
    await stop(agent);
  }
});
