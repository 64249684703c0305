// SPDX-License-Identifier: Apache-2.0
// node checks.mjs PROGRAMS WORD...: what an agent does on the devices of network.mjs. Clients outside reach a NodePort over a VLAN on a
// bond, with backends on the node and, over tunnels, on another one. A line for each check: `ok NAME`, or `not ok NAME: SAW`; `1..COUNT` is
// the last one. Run it in a network namespace of its own. WORDs: `tcx` and `sweep`, which the kernel has; `rules`, where
// it refuses the programs of packets, and `clsact`, where no device takes them.
import {
  addTunnel,
  buildNetwork,
  MOVED,
  moveBack,
  moveUnderBond,
  removeNetwork,
  removeTunnel,
  routeElsewhere,
} from './network.mjs';
import { NODE_PORT, writeObjects } from './objects.mjs';
import {
  agentStatus,
  burst,
  devices,
  fairlead,
  OWN,
  PATIENCE_MS,
  prepare,
  removeAll,
  say,
  serve,
  startAgent,
} from './programs.mjs';

const WORDS = process.argv.slice(3);
const HAS_TCX = WORDS.includes('tcx');

let checks = 0;
/** @param {boolean} isOk @param {string} name @param {unknown} [saw] */
function check(isOk, name, saw = '') {
  checks += 1;
  const text = typeof saw === 'string' ? saw : JSON.stringify(saw);
  say(`${isOk ? 'ok' : 'not ok'} ${name}${isOk || text === '' ? '' : `: ${text}`}`);
}

const BOTH = '10.1.1.5 10.1.2.5';

/** @param {string} how */
function checkTraffic(how) {
  const node = `192.0.2.11 ${NODE_PORT}`;
  for (const [what, words, expected] of [
    ['TCP', `tcp ${node} 24 20000 - 0 6`, BOTH],
    ['UDP', `udp ${node} 24 20000 - 0 6`, BOTH],
    ['UDP in fragments', `udp ${node} 24 20000 - 0 2000`, BOTH],
    ['TCP over IPv6', `tcp 2001:db8::11 ${NODE_PORT} 8 20000 - 0 6`, '2001:db8:1:1::5'],
  ]) {
    const saw = burst(words ?? '');
    check(saw === expected, `${what} reaches local and remote backends, ${how}`, saw);
  }
}

/** @param {string} tunnel */
async function checkDevices(tunnel) {
  const all = await devices();
  const by = HAS_TCX ? '' : ' (clsact, priority 1)';
  const isL3 = tunnel !== 'geneve';
  for (const [name, program] of [
    ...['bond1', 'bond1.10', 'v-a', 'under'].map((one) => [one, 'fl_ingress']),
    ['tun1', isL3 ? 'fl_ingress_l3' : 'fl_ingress'],
  ]) {
    const device = all.get(name ?? '');
    const isRight = device?.isAttached === true && device.ingress.join() === `${program}${by}`;
    check(isRight, `${name} has ${program}${by}, with ${tunnel}`, device);
  }
  for (const name of ['port0', 'port1']) {
    const device = all.get(name);
    const isRight = device?.isAttached === false && device.reason.includes('port of bond bond1');
    check(isRight, `${name} has none, as a port of a bond`, device);
  }
}

/** Once it is true of a device, or what it is like after all. @param {string} name @param {(device: import('./programs.mjs').Device) => boolean} isRight */
async function untilDevice(name, isRight) {
  const deadline = performance.now() + PATIENCE_MS;
  for (;;) {
    const device = (await devices()).get(name);
    if (device !== undefined && isRight(device)) return undefined;
    if (performance.now() > deadline) return device ?? 'no such device';
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
}

/** A device with programs becomes a port of the bond, whose traffic it carries alone, and leaves it again. */
async function checkMovedPort() {
  const checkMoved = async (
    /** @type {string} */ what,
    /** @type {Parameters<typeof untilDevice>[1]} */ isRight,
  ) => {
    const saw = await untilDevice(MOVED, isRight);
    check(saw === undefined, `${MOVED} ${what}`, saw);
  };
  const hasPrograms = (/** @type {import('./programs.mjs').Device} */ device) =>
    device.isAttached && device.ingress.length === 1 && device.egress.length === 1;
  await checkMoved('has programs', hasPrograms);
  moveUnderBond();
  await checkMoved(
    'has none once it is a port of the bond',
    ({ isAttached, ingress, egress, reason }) =>
      !isAttached && ingress.length + egress.length === 0 && reason.includes('port of bond bond1'),
  );
  checkTraffic(`by ${MOVED}, which was moved under the bond`);
  moveBack();
  await checkMoved('has programs once it has left the bond', hasPrograms);
  checkTraffic(`after ${MOVED} has left the bond`);
}

/** Flows expire after 10 s: TCP's because the clients reset them. @param {readonly string[]} log */
async function checkSweep(log) {
  const deadline = performance.now() + PATIENCE_MS;
  /** @type {readonly unknown[]} */
  let left = [undefined];
  while (left.length > 0 && performance.now() < deadline) {
    const { stdout } = fairlead(['connections', '-o', 'json', ...OWN]);
    left = JSON.parse(stdout).items;
    await new Promise((resolve) => setTimeout(resolve, 5_000));
  }
  check(left.length === 0, 'expired flows are deleted', left);
  const isByAgent = log.some((line) => line.includes('does not load the sweep'));
  check(isByAgent !== WORDS.includes('sweep'), 'by the kernel, if it can', log);
}

/** @param {import('node:child_process').ChildProcess} child @param {NodeJS.Signals} signal */
function end(child, signal) {
  child.removeAllListeners('exit');
  const ended = new Promise((resolve) => child.once('exit', resolve));
  child.kill(signal);
  return ended;
}

/** Linux 5.10 refuses the programs; without sch_ingress no device takes them. Sockets are served by eBPF, packets by iptables. */
async function checkRules() {
  const { stdout } = fairlead(['probe', '-o', 'json', '--timeout', '240'], 900_000);
  const { engine } = JSON.parse(stdout);
  check(engine.sockets === 'bpf' && engine.packets === 'iptables', 'a probe says so', engine);
  const { child } = await startAgent();
  const { dataplanes, fallback, refused } = await agentStatus();
  const isRight = dataplanes.join() === 'bpf,iptables' && refused.length === 0;
  check(isRight && fallback?.what === 'packets', 'sockets by eBPF, packets by iptables', fallback);
  const reason = WORDS.includes('clsact') ? /clsact/ : /program fl_ingress was refused/;
  check(reason.test(fallback?.reason), 'with the reason', fallback);
  const saw = burst(`tcp 192.0.2.11 ${NODE_PORT} 24 20000 - 0 6`);
  check(saw === BOTH, 'TCP from outside reaches local and remote backends', saw);
  await end(child, 'SIGTERM');
}

async function main() {
  prepare();
  buildNetwork();
  writeObjects();
  const ends = await Promise.all([
    serve('a', ['10.1.1.5', '2001:db8:1:1::5']),
    serve('b', ['10.1.2.5']),
  ]);
  await (WORDS.includes('rules') ? checkRules() : checkPrograms());
  for (const end of ends) end();
}

async function checkPrograms() {
  const first = await startAgent();
  await checkDevices('ipip');
  checkTraffic('VLAN on bond, ipip');
  routeElsewhere('add');
  checkTraffic('by the VLAN that the requests came in by');
  routeElsewhere('del');
  for (const kind of ['gre', 'geneve']) {
    removeTunnel();
    addTunnel(kind);
    checkTraffic(`VLAN on bond, ${kind}`);
  }
  await checkDevices('geneve');
  await checkMovedPort();
  await end(first.child, 'SIGKILL');
  checkTraffic('no agent');
  const next = await startAgent();
  await checkDevices('geneve');
  checkTraffic('the next agent');
  await checkSweep(next.log);
  await end(next.child, 'SIGTERM');
  check(fairlead(['cleanup', ...OWN]).status === 0, 'cleanup removes the programs');
  const saw = burst(`tcp 192.0.2.11 ${NODE_PORT} 4 20000 - 0 6`);
  check(saw.startsWith('ECONNREFUSED'), 'and nothing is translated any more', saw);
}

main()
  .catch((error) => check(false, 'the checks end', String(error)))
  .finally(() => {
    removeNetwork();
    removeAll();
    say(`1..${checks}`);
    process.exit(0);
  });
