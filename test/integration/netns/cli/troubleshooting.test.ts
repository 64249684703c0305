// SPDX-License-Identifier: Apache-2.0
// docs/troubleshooting.md against live agents: each command it names is run in the state it describes and
// prints what the page shows (`…` is lines, or the end of one, left out). FAIRLEAD_UPDATE_DOCS=1 writes what was printed into the page.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, afterEach, beforeEach, describe, expect, test } from 'vitest';
import { type Child, type RunResult, run, start } from '../../../../src/sys/exec.ts';
import { ownPaths } from '../../../../tools/lab/agent.ts';
import { compiledPath, insideSandbox } from '../../../../tools/lab/sandbox.ts';
import { service, slices, svc } from '../../../support/builders.ts';
import { pinMap } from '../../../support/dataplane/pin.ts';
import { startOneNode } from '../../../support/node.ts';
import { mapIteratorRefusal } from '../../../support/programs/map-iterators.ts';
import { NOBODY, readableMain } from '../../../support/programs/nobody.ts';
import { until } from '../../../support/until.ts';

const PAGE = fileURLToPath(new URL('../../../../docs/troubleshooting.md', import.meta.url));
const UPDATES = process.env['FAIRLEAD_UPDATE_DOCS'] === '1';

type Node = Awaited<ReturnType<typeof startOneNode>>;
interface Situation {
  readonly node: Node;
  /** Everything before the program's own arguments. */
  wrapper: readonly string[];
  /** Another main.js. */
  program?: string;
}

/** Puts the node into the state that a heading describes. */
type Setup = (situation: Situation) => Promise<void>;

const far = { name: 'far', nodeName: 'n2', ipv4: '10.1.2.77', ipv6: 'fd00:10:2::77' };
const without = (...capabilities: readonly string[]): readonly string[] => [
  'setpriv',
  `--bounding-set=${capabilities.map((name) => `-${name}`).join()}`,
];
const withMounts = (script: string): readonly string[] => [
  ...['unshare', '--mount', 'sh', '-c'],
  `${script}; exec "$@"`,
  'sh',
];
const running: Child[] = [];
const startAgent = async ({ node }: Situation, flags: readonly string[] = []): Promise<void> => {
  running.push((await node.startAgent(flags)).child);
};

const LEFT_RULES = `*filter
:KUBE-FORWARD - [0:0]
-A FORWARD -m comment --comment "kubernetes forwarding rules" -j KUBE-FORWARD
-A KUBE-FORWARD -m mark --mark 0x4000/0x4000 -j ACCEPT
COMMIT
*nat
:KUBE-SERVICES - [0:0]
-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A KUBE-SERVICES -d 10.96.0.10/32 -p tcp -m tcp --dport 80 -j RETURN
COMMIT
`;

const SETUPS: Readonly<Record<string, Setup>> = {
  'A connection is refused at once': async (situation) => {
    situation.node.manifests.put('web.yaml', service('web', { n: 10 }, []));
    await startAgent(situation);
  },
  'A connection times out': async (situation) => {
    const web = svc('web', { n: 10 });
    const spec = { ...(web['spec'] as object), internalTrafficPolicy: 'Local' };
    situation.node.manifests.put('web.yaml', [{ ...web, spec }, ...slices('web', [{ pod: far }])]);
    await startAgent(situation);
  },
  'A UDP client keeps using an endpoint that is gone': async (situation) => {
    const { node } = situation;
    const [program = '', ...args] = commandOf({ ...situation, wrapper: without('sys_admin') }, [
      'run',
      ...instanceFlags(node),
      '--manifests',
      node.manifests.path,
    ]);
    running.push(start(program, args, {}));
    await until(async () => ((await node.status()).staleSockets?.limits ?? []).length > 0, {
      what: 'the first pass over stale sockets',
      timeoutMs: 60_000,
    });
  },
  'Something else on the node breaks Services': async (situation) => {
    const uplinks = ['one', 'two'].map(
      (name, at) =>
        `ip link add ${name} type veth peer name ${name}-peer && ip addr add 198.51.${100 + at}.1/24 dev ${name} && ip link set ${name} up && sysctl -qw net.ipv4.conf.${name}.rp_filter=1`,
    );
    const script = [...uplinks, 'ip rule add from 10.1.1.5 lookup 2'].join(' && ');
    const [program = '', ...args] = insideSandbox(situation.node.self, ['sh', '-c', script]);
    expect(await run(program, args)).toMatchObject({ code: 0 });
    await startAgent(situation);
  },
  'An object has no effect': async (situation) => {
    const web = svc('web', { n: 10 });
    const ports = [{ name: 'main', port: 99_999, protocol: 'TCP' }];
    situation.node.manifests.put('web.yaml', [
      { ...web, spec: { ...(web['spec'] as object), ports } },
    ]);
    await startAgent(situation);
  },
  'The agent is not ready': async (situation) => {
    const { node } = situation;
    const kubeconfig = join(node.instance.runDir, 'kubeconfig');
    writeFileSync(kubeconfig, KUBECONFIG);
    const [program = '', ...args] = commandOf(situation, [
      'run',
      ...instanceFlags(node),
      '--kubeconfig',
      kubeconfig,
    ]);
    running.push(start(program, args, {}));
    const isRefused = ({ reason }: { readonly reason: string }): boolean =>
      reason.includes('ECONNREFUSED');
    await until(
      async () => (await node.status().catch(() => undefined))?.problems.some(isRefused),
      {
        what: 'a problem of the API server',
        timeoutMs: 60_000,
      },
    );
  },
  'No agent answers': async () => undefined,
  'A command has no permission': async (situation) => {
    await startAgent(situation);
    situation.wrapper = NOBODY;
    situation.program = openMain;
  },
  'A map is full': async (situation) => {
    const files = [1, 2, 3].flatMap((n) => service(`web-${n}`, { n }, situation.node.servers));
    situation.node.manifests.put('web.yaml', files);
    await startAgent(situation, ['--map-size', 'frontends=4']);
  },
  'The agent does not start: a capability is missing': async (situation) => {
    situation.wrapper = without('bpf', 'sys_admin');
  },
  'The agent does not start: the kernel': async (situation) => {
    situation.wrapper = withMounts('mount -t tmpfs none /sys/kernel/btf');
  },
  'Services are served by rules, not by eBPF': async (situation) => {
    const { node } = situation;
    const wrapper = withMounts('mount -t tmpfs none /sys/kernel/btf');
    const manifests = ['--manifests', node.manifests.path];
    const run = ['run', ...instanceFlags(node), ...manifests];
    const [program = '', ...args] = commandOf({ node, wrapper }, run);
    running.push(start(program, args, {}));
    await until(async () => (await node.status()).isReady, 'ready');
  },
  'The agent does not start: another agent': (situation) => startAgent(situation),
  'The agent does not start: pins of another layout': async ({ node }) => {
    await pinMap(join(node.instance.bpfRoot, 'maps', 'fl_service_v999'));
  },
  'Bypass has no effect': async (situation) => {
    await startAgent(situation);
    const { code, stderr } = await fairlead(situation, [
      'bypass',
      'add',
      situation.node.sandboxes[0]!.cgroup,
    ]);
    expect(code, stderr).toBe(0);
  },
  'DNS is broken after a try-out with manifests': async (situation) => {
    situation.node.manifests.put('web.yaml', service('dns', { n: 10 }, situation.node.servers));
    await startAgent(situation);
    await endAll();
  },
  'kube-proxy has left its rules': async (situation) => {
    const argv = ['iptables-legacy-restore', '-w', '30', '--noflush'];
    const [program = '', ...args] = insideSandbox(situation.node.self, argv);
    expect(await run(program, args, { stdin: LEFT_RULES })).toMatchObject({ code: 0 });
    await startAgent(situation);
  },
};

const KUBECONFIG = `apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: 'https://127.0.0.1:6443'}}]
users: [{name: u, user: {token: t}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`;

const instanceFlags = ({ instance }: Node): string[] => [
  ...['--hostname-override', instance.nodeName, '--cgroup-root', instance.cgroupRoot],
];

const openMain = readableMain();

const commandOf = (
  { node, wrapper, program = compiledPath('main.js') }: Situation,
  args: readonly string[],
): string[] => {
  const argv = [process.execPath, program, ...args, ...ownPaths(node.instance)];
  return insideSandbox(node.instance.sandbox, [...wrapper, ...argv]);
};

function fairlead(situation: Situation, args: readonly string[]): Promise<RunResult> {
  const { node } = situation;
  const isRun = args[0] === 'run';
  // `status` knows nothing of pins, `bypass` nothing of the socket.
  const all = isRun ? [...args, ...instanceFlags(node), '--manifests', node.manifests.path] : args;
  const [program = '', ...rest] = commandOf(situation, all);
  const foreign = { status: '--bpf-root', bypass: '--run-dir' }[args[0] ?? ''];
  const own = rest.filter((arg, at) => arg !== foreign && rest[at - 1] !== foreign);
  return run(program, foreign === undefined ? rest : own, { timeoutMs: 60_000 });
}

async function endAll(): Promise<void> {
  for (const child of running.splice(0)) {
    child.kill('SIGTERM');
    await child.exited;
  }
}

/** Replaces values that differ between runs by those of a node with the defaults. */
function masked(text: string, node: Node): string {
  const { runDir, bpfRoot, cgroupRoot, manifests } = node.instance;
  return text
    .replaceAll(runDir, '/run/fairlead')
    .replaceAll(bpfRoot, '/sys/fs/bpf/fairlead')
    .replaceAll(manifests.path, '/etc/fairlead/manifests')
    .replaceAll(node.sandboxes[0]?.cgroup ?? '', '/sys/fs/cgroup/kubepods/pod1')
    .replaceAll(cgroupRoot, '/sys/fs/cgroup')
    .replace(/pid \d+/g, 'pid 4711')
    .replace(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, '2026-11-22T08:00:00Z')
    .replace(/Linux [\d.]\S*/g, 'Linux 6.12.0')
    .replace(/\d+\.\d+ ms/g, '1.5 ms')
    .replace(/id \d+/g, 'id 1234');
}

interface Block {
  readonly heading: string;
  /** `services web`; a comment after `#` is ignored. */
  readonly args: readonly string[];
  readonly lines: readonly string[];
  /** The whole block without its fences. */
  readonly text: string;
}

function blocksOf(page: string): readonly Block[] {
  return page.split(/^## /m).flatMap((section) => {
    const heading = section.slice(0, section.indexOf('\n'));
    const blocks = section.matchAll(/^```text\n(\$ fairlead ([^#\n]*?)(?: #.*)?\n[\s\S]*?)^```/gm);
    return [...blocks].map(([, text = '', command = '']) => ({
      ...{ heading, text, args: command.trim().split(' ') },
      lines: text.split('\n').slice(1, -1),
    }));
  });
}

const words = (line: string): string => line.trim().replace(/\d+/g, 'N').replace(/\s+/g, ' ');

describe('docs/troubleshooting.md', () => {
  let situation: Situation;
  beforeEach(async () => {
    const node = await startOneNode(['web-1', 'web-2']);
    node.manifests.put('web.yaml', service('web', { n: 10 }, node.servers));
    situation = { node, wrapper: [] };
  });
  afterEach(async () => {
    await endAll();
    situation.node.remove();
  });
  const page = readFileSync(PAGE, 'utf8');
  const blocks = blocksOf(page);
  let updated = page;
  afterAll(() => {
    if (UPDATES) writeFileSync(PAGE, updated);
  });

  test.for(blocks)('$heading: fairlead $args', async ({ heading, args, lines, text }, context) => {
    const needsMapIterators = heading.startsWith('A UDP client keeps using');
    const refusal = needsMapIterators ? mapIteratorRefusal() : undefined;
    if (refusal !== undefined) context.skip(refusal);
    const setup = SETUPS[heading];
    expect(setup, `a state for: ${heading}`).toBeDefined();
    await setup?.(situation);
    const { stdout, stderr } = await fairlead(situation, args);
    const printed = masked(stdout + stderr, situation.node)
      .split('\n')
      .filter((line) => line !== '' && !line.startsWith('{'));
    if (UPDATES) {
      const [command] = text.split('\n');
      const at = updated.indexOf(text, updated.indexOf(`## ${heading}\n`));
      const shown = `${command}\n${printed.join('\n')}\n`;
      updated = updated.slice(0, at) + shown + updated.slice(at + text.length);
      return;
    }
    expect(lines.length).toBeGreaterThan(0);
    const all = printed.map(words);
    for (const line of lines.filter((each) => each !== '…')) {
      if (!line.endsWith('…')) expect(all).toContain(words(line));
      else
        expect(
          all.some((each) => each.startsWith(words(line.slice(0, -1)))),
          line,
        ).toBe(true);
    }
  });

  test('every state has a heading on the page', () => {
    expect(blocks.map(({ heading }) => heading)).toEqual(Object.keys(SETUPS));
  });
});
