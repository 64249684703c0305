// SPDX-License-Identifier: Apache-2.0
// A successor takes over from an agent that runs: whoever asks its ports, and whoever uses its Services, notices nothing, also if the
// successor is killed at any point of its start, has maps of another layout, or another engine.
import { closeSync, existsSync, openSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { type Child, start, stop } from '../../../../src/sys/exec.ts';
import { lockExclusively } from '../../../../src/sys/native.ts';
import { type Agent, ownPaths, startAgent } from '../../../../tools/lab/agent.ts';
import { compiledPath, insideSandbox } from '../../../../tools/lab/sandbox.ts';
import { service, slices, svc, target } from '../../../support/builders.ts';
import { buildWithVersions, type OtherBuild } from '../../../support/dataplane/other-build.ts';
import { startOneNode } from '../../../support/node.ts';
import { askPorts, type PortCount } from '../../../support/ports.ts';
import { until, untilHolds } from '../../../support/until.ts';

const TAKE_OVERS = 5;
const CHECK_PORT = 32_100;
const WEB = { n: 10 };
const NODE = { apiVersion: 'v1', kind: 'Node', metadata: { name: 'n1' } };
const TAKE_OVER = ['--take-over'];
const PORTS = [
  'http://127.0.0.1:10256/healthz',
  'http://127.0.0.1:10249/proxyMode',
  `http://127.0.0.1:${CHECK_PORT}/`,
  `http://[::1]:${CHECK_PORT}/`,
];

let node: Awaited<ReturnType<typeof startOneNode>>;
let later: OtherBuild;
let agent: Agent | undefined;
const started: Child[] = [];

/** A load balancer asks the health check port for endpoints of this node. */
const local = () => {
  const web = svc('web', WEB);
  const spec = {
    ...(web['spec'] as object),
    type: 'LoadBalancer',
    externalTrafficPolicy: 'Local',
    healthCheckNodePort: CHECK_PORT,
  };
  const endpoints = node.servers.map((pod) => ({ pod }));
  return [{ ...web, spec }, ...slices('web', endpoints, WEB)];
};

beforeAll(async () => {
  later = buildWithVersions();
  node = await startOneNode(['a', 'b']);
  node.manifests.put('node.yaml', [NODE]);
  node.manifests.put('web.yaml', local());
});
afterEach(async () => {
  for (const child of started.splice(0)) await stop(child);
  await agent?.stop();
  agent = undefined;
});
afterAll(() => {
  node?.remove();
  later?.remove();
});

const has = (log: readonly string[], text: string): boolean =>
  log.some((line) => line.includes(`"msg":"${text}"`));

/** Requests to all ports and connections to a Service while `action` runs; none may fail. */
async function underLoad(action: () => Promise<void>): Promise<number> {
  const asked = await askPorts(node.self, PORTS);
  const load = await node.client().startLoad(target(WEB), { concurrency: 2, pauseMs: 5 });
  let counts: Readonly<Record<string, PortCount>> = {};
  try {
    await action();
  } finally {
    counts = await asked.stop();
  }
  const { failures } = await load.stop();
  const notAnswered = Object.entries(counts).filter(([, count]) => count.answered !== count.asked);
  expect(notAnswered).toEqual([]);
  expect(failures).toEqual([]);
  return Object.values(counts).reduce((all, { asked: requests }) => all + requests, 0);
}

/** The successor answers for itself, and the agent before it waits for its end. */
async function untilGiven(before: Agent): Promise<void> {
  await until(() => has(before.log, 'handed over, waiting for SIGTERM'), 'the agent hands over');
  expect(before.child.hasExited()).toBe(false);
}

async function expectServed(name: string, n: number): Promise<void> {
  node.manifests.put(`${name}.yaml`, service(name, { n }, node.servers));
  await untilHolds(async () => {
    expect(await node.client().once(target({ n }))).toMatchObject({ kind: 'answered' });
  });
  node.manifests.remove(`${name}.yaml`);
}

test(`${TAKE_OVERS} times: no request is refused, no answer is wrong, no connection fails`, async () => {
  agent = await node.startAgent(TAKE_OVER);
  const requests = await underLoad(async () => {
    for (let round = 0; round < TAKE_OVERS; round++) {
      const before: Agent = agent!;
      agent = await node.startAgent(TAKE_OVER);
      await untilGiven(before);
      expect((await node.status()).pid).toBe(agent.child.pid);
      await expectServed(`round-${round}`, 100 + round);
      expect(await before.stop()).toBe(0);
      await expectServed(`after-${round}`, 120 + round);
    }
  });
  process.stderr.write(`${requests} requests in ${TAKE_OVERS} take-overs, 0 failed\n`);
});

/** Of the successor's log: it is killed when it says so. */
const POINTS = ['an agent runs', 'taking over', 'attached', 'ready'] as const;
type Point = (typeof POINTS)[number];

/** For node: the program kills itself when it has said so. Who kills it by its log may be late: it serves by then. */
const killedAt = (point: Point): string[] => {
  const code = `import fs from 'node:fs';
  const { writeSync } = fs;
  fs.writeSync = (fd, text, ...rest) => {
    const written = writeSync(fd, text, ...rest);
    if (String(text).includes('"msg":"${point}')) process.kill(process.pid, 'SIGKILL');
    return written;
  };`;
  return ['--import', `data:text/javascript,${encodeURIComponent(code)}`];
};

interface SuccessorOptions {
  readonly flags?: readonly string[];
  readonly nodeArgs?: readonly string[];
  readonly onLine?: (line: string) => void;
  readonly program?: string;
}

/** A successor that is not waited for. */
function startSuccessor(options: SuccessorOptions = {}) {
  const { flags = [], nodeArgs = [], onLine, program = compiledPath('main.js') } = options;
  const { manifests, cgroupRoot, nodeName, sandbox } = node.instance;
  const source = ['--manifests', manifests.path, '--hostname-override', nodeName];
  const run = ['run', ...source, '--cgroup-root', cgroupRoot, ...ownPaths(node.instance)];
  const argv = [process.execPath, ...nodeArgs, program, ...run, ...TAKE_OVER, ...flags];
  const [command = '', ...args] = insideSandbox(sandbox, argv);
  const log: string[] = [];
  const child = start(command, args, {
    onStderrLine: (line) => {
      log.push(line);
      onLine?.(line);
    },
  });
  started.push(child);
  return { child, log };
}

test.each(
  POINTS.flatMap((point) => [
    { point, signal: 'SIGKILL' as const },
    { point, signal: 'SIGTERM' as const },
  ]),
)(
  'a successor that is ended by $signal at $point: the agent before it goes on',
  async ({ point, signal }) => {
    agent = await node.startAgent(TAKE_OVER);
    const before = agent;
    await underLoad(async () => {
      const { child } = startSuccessor({
        onLine: (line) => {
          if (line.includes(`"msg":"${point}`)) child.kill(signal);
        },
      });
      await child.exited;
      const isBack = (): boolean =>
        has(before.log, 'resumed') ||
        !has(before.log, 'released') ||
        has(before.log, 'handed over, waiting for SIGTERM');
      await until(isBack, 'the agent goes on');
      // Ready, it may have served before its end: then it was the agent.
      if (has(before.log, 'handed over, waiting for SIGTERM')) return;
      await expectServed('after', 90);
      expect((await node.status()).pid).toBe(before.child.pid);
    }).catch((error: unknown) => {
      if (!has(before.log, 'handed over, waiting for SIGTERM')) throw error;
    });
    expect(await before.stop()).toBe(0);
  },
);

test('killed again and again: the agent resumes each time, and a successor that lives takes over at last', async () => {
  agent = await node.startAgent(TAKE_OVER);
  const before = agent;
  await underLoad(async () => {
    for (const point of ['taking over', 'attached', 'taking over', 'attached'] as const) {
      const resumed = before.log.filter((line) => line.includes('"msg":"resumed"')).length;
      const { child } = startSuccessor({ nodeArgs: killedAt(point) });
      await child.exited;
      const count = (): number =>
        before.log.filter((line) => line.includes('"msg":"resumed"')).length;
      await until(() => count() > resumed, 'the agent resumes');
    }
    agent = await node.startAgent(TAKE_OVER);
    await untilGiven(before);
    await expectServed('last', 91);
  });
  expect(await before.stop()).toBe(0);
});

test('a successor with another layout of all maps is killed after it has migrated them: the agent migrates them back', async () => {
  agent = await node.startAgent(TAKE_OVER);
  const before = agent;
  const maps = (): string[] => readdirSync(join(node.instance.bpfRoot, 'maps'));
  await underLoad(async () => {
    const { child } = startSuccessor({
      nodeArgs: killedAt('attached'),
      program: later.program,
    });
    await child.exited;
    await until(() => has(before.log, 'resumed'), 'the agent resumes');
    expect(maps()).toContain('fl_frontend4');
    await expectServed('back', 92);
    const next = await startAgent({ ...node.instance, program: later.program }, TAKE_OVER);
    agent = next;
    await untilGiven(before);
    expect(maps()).toContain('fl_frontend4_v2');
    await expectServed('forth', 93);
  });
  expect(await before.stop()).toBe(0);
});

test('from one engine to the other and back', async () => {
  agent = await node.startAgent(TAKE_OVER);
  const asked = await askPorts(node.self, PORTS);
  for (const engine of ['iptables', 'bpf']) {
    const before: Agent = agent;
    agent = await node.startAgent([...TAKE_OVER, '--engine', engine]);
    await untilGiven(before);
    expect((await node.status()).dataplanes).toEqual([engine]);
    expect(await before.stop()).toBe(0);
  }
  const counts = await asked.stop();
  expect(Object.entries(counts).filter(([, { asked: all, answered }]) => all !== answered)).toEqual(
    [],
  );
});

test('--ephemeral: the agent that was taken from removes nothing, its successor everything', async () => {
  agent = await node.startAgent([...TAKE_OVER, '--ephemeral']);
  const before = agent;
  agent = await node.startAgent([...TAKE_OVER, '--ephemeral']);
  await untilGiven(before);
  expect(await before.stop()).toBe(0);
  expect(before.log.at(-1)).toContain('stopped, traffic keeps flowing');
  await expectServed('still', 94);
  expect(await agent.stop()).toBe(0);
  expect(existsSync(node.instance.bpfRoot)).toBe(false);
});

test('--ready-file is there while the agent of that file is ready', async () => {
  const fileOf = (name: string): string => join(node.instance.runDir, name);
  agent = await node.startAgent([...TAKE_OVER, '--ready-file', fileOf('first')]);
  await untilHolds(() => expect(readFileSync(fileOf('first'), 'utf8')).toMatch(/^\d+\n$/));
  const before = agent;
  agent = await node.startAgent([...TAKE_OVER, '--ready-file', fileOf('second')]);
  await untilHolds(() => expect(existsSync(fileOf('second'))).toBe(true));
  await untilGiven(before);
  await before.stop();
  expect([existsSync(fileOf('first')), existsSync(fileOf('second'))]).toEqual([false, true]);
});

test.each([
  {
    name: 'another --cgroup-root',
    flags: () => ['--cgroup-root', node.sandboxes[0]!.cgroup],
    says: /\(pid \d+\) does not hand over, because its --cgroup-root is .*, and yours is another one: stop it first/,
  },
  {
    name: 'another --bpf-root',
    flags: () => ['--bpf-root', `${node.instance.bpfRoot}-other`],
    says: /does not hand over, because its --bpf-root is .*, and yours is another one/,
  },
])('$name is refused in one line, and the agent goes on', async ({ flags, says }) => {
  agent = await node.startAgent(TAKE_OVER);
  await underLoad(async () => {
    const { child, log } = startSuccessor({ flags: flags() });
    expect(await child.exited).toBe(1);
    const lines = log.filter((line) => !line.startsWith('{'));
    expect(lines).toHaveLength(1);
    expect(lines[0]).toMatch(says);
    await expectServed('after', 95);
  });
  expect(has(agent.log, 'released')).toBe(false);
});

test('many successors at once: one at a time takes over, the others say why not, and one agent is left', async () => {
  agent = await node.startAgent(TAKE_OVER);
  const successors = Array.from({ length: 4 }, () => startSuccessor());
  const ended = (): number => successors.filter(({ child }) => child.hasExited()).length;
  const serving = (): number =>
    successors.filter(({ child, log }) => !child.hasExited() && has(log, 'ready')).length;
  await until(() => ended() + serving() === successors.length, {
    what: 'every successor serves or has ended',
    timeoutMs: 240_000,
  });
  for (const { child, log } of successors.filter(({ child }) => child.hasExited())) {
    expect(await child.exited).toBe(1);
    const lines = log.filter((line) => !line.startsWith('{'));
    // The last of these, if it came when one agent had let go and the next one had not begun: then nobody says its pid.
    const why =
      /does not hand over|is starting, or of a version|another fairlead (\(pid \d+\) )?serves/;
    expect(lines.join('\n')).toMatch(why);
    expect(lines).toHaveLength(1);
  }
  await untilHolds(async () => expect((await node.status()).isReady).toBe(true));
  await expectServed('one', 96);
});

test('no third agent finds the lock on --run-dir free while two hand over, or one resumes', async () => {
  agent = await node.startAgent(TAKE_OVER);
  const before = agent;
  const asked = { isOver: false, times: 0, locked: 0 };
  const third = (async () => {
    while (!asked.isOver) {
      const folder = openSync(node.instance.runDir, 'r');
      if (lockExclusively(folder)) asked.locked++;
      closeSync(folder);
      asked.times++;
      await delay(1);
    }
  })();
  const { child } = startSuccessor({ nodeArgs: killedAt('attached') });
  await child.exited;
  await until(() => has(before.log, 'resumed'), 'the agent resumes');
  agent = await node.startAgent(TAKE_OVER);
  await untilGiven(before);
  asked.isOver = true;
  await third;
  expect(asked.times).toBeGreaterThan(100);
  expect(asked.locked).toBe(0);
  expect(await before.stop()).toBe(0);
});

/** For node: the program stops when it has said so, until the file is there. */
const stoppedAt = (point: Point, until: string): string[] => {
  const code = `import fs from 'node:fs';
  const { writeSync } = fs;
  fs.writeSync = (fd, text, ...rest) => {
    const written = writeSync(fd, text, ...rest);
    while (String(text).includes('"msg":"${point}') && !fs.existsSync('${until}'))
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 10);
    return written;
  };`;
  return ['--import', `data:text/javascript,${encodeURIComponent(code)}`];
};

test('an agent that keeps its pins for longer, because its table grows at that moment: the successor waits', async () => {
  agent = await node.startAgent(TAKE_OVER);
  const before = agent;
  const isKept = join(node.instance.runDir, 'pins-are-kept');
  const { child, log } = startSuccessor({ nodeArgs: stoppedAt('taking over', isKept) });
  await until(() => has(log, 'taking over'), 'the agent has let go');
  const pins = openSync(node.instance.bpfRoot, 'r');
  try {
    expect(lockExclusively(pins)).toBe(true);
    writeFileSync(isKept, '');
    await until(() => log.some((line) => line.includes('has not let go of its pins')), 'it waits');
    expect(child.hasExited()).toBe(false);
  } finally {
    closeSync(pins);
  }
  await untilGiven(before);
  await expectServed('kept', 97);
  expect((await node.status()).pid).toBe(child.pid);
  expect(await before.stop()).toBe(0);
});

test('without an agent it starts as without the flag', async () => {
  agent = await node.startAgent(TAKE_OVER);
  expect(has(agent.log, 'taking over')).toBe(false);
  const second = startSuccessor({ flags: ['--take-over=false'] });
  expect(await second.child.exited).toBe(1);
  expect(second.log.at(-1)).toMatch(/another fairlead \(pid \d+\) serves .*agent\.sock/);
});
