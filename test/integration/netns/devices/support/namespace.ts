// SPDX-License-Identifier: Apache-2.0
// A network namespace, a BPF file system, and programs that follow the devices in it.
import { basename } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { DeviceView } from '../../../../../src/engines/snapshot.ts';
import { type Child, run, start } from '../../../../../src/sys/exec.ts';
import { insideNamespace, ipBatch } from '../../../../../src/sys/netns.ts';
import { until, type Wait } from '../../../../support/until.ts';
import { makeBpffs, makeNetns, type TestResource } from '../../../native/support/resources.ts';

const built = (path: string): string =>
  fileURLToPath(new URL(`../../../../../build/${path}`, import.meta.url));
const LIST_ATTACHED = `
  const native = await load('sys/native.js');
  const { readNetwork } = await load('sys/netlink/follow.js');
  const link = [...readNetwork().links.values()].find(({ name }) => name === input.device);
  const found = ['ingress', 'egress'].flatMap((direction) => [
    ...native.tcxPrograms(link.ifindex, direction).map(({ name, linkId }) => [direction, name, linkId]),
    ...[1, 50_000]
      .filter((priority) => native.tcFilter(link.ifindex, direction, { priority }) !== 0)
      .map(() => [direction, 'filter', 0]),
  ]);
  process.stdout.write(JSON.stringify(found.map((one) => one.join(' '))));`;
const CHILD = fileURLToPath(new URL('./follower-child.mjs', import.meta.url));
/** It answers between two devices: of some hundred that come at once it attaches programs to many before it reads. */
const ANSWER_MS = 30_000;

export const DEVICES_OBJECT = built('bpf-test/devices.bpf.o');

export interface State {
  /** Of the system's clock. */
  readonly atMs: number;
  readonly devices: readonly DeviceView[];
  readonly pins: readonly string[];
  readonly table: readonly {
    readonly ifindex: number;
    readonly isPod: boolean;
    readonly dropsOthers: boolean;
    readonly snat: object;
  }[];
  /** Packets by `program@device`. */
  readonly seen: Readonly<Record<string, number>>;
  readonly log: readonly string[];
  /** The number of the command that this answers; without, devices have changed. */
  readonly answer?: number;
  readonly repaired?: readonly string[];
}

export interface Settings {
  readonly patterns: readonly string[];
  readonly order: 'outer' | 'inner';
  readonly forceClsact: boolean;
  /** Another instance’s. */
  readonly bpfRoot: string;
}

export interface FollowerProcess {
  state(): State;
  /** Asks anew until it holds. */
  until(wait: Wait | string, holds: (state: State) => boolean): Promise<State>;
  /** The answer to one command. */
  ask(command: 'state' | 'repair'): Promise<State>;
  device(name: string): DeviceView | undefined;
  kill(): Promise<void>;
}

export interface TestNamespace {
  readonly name: string;
  readonly bpffs: TestResource;
  ip(...lines: readonly string[]): Promise<void>;
  /** Output of a program in the namespace. Throws if it fails. */
  run(program: string, ...args: readonly string[]): Promise<string>;
  follow(settings?: Partial<Settings>): Promise<FollowerProcess>;
  /** Runs the body of an async function in the namespace: its parameters are `load`, for a module of src, and `input`. */
  evaluate(body: string, input: object): Promise<string>;
  /** `ingress fl_ingress 17`: programs of links and filters, with the ids of the links (filters: 0). */
  attachedTo(device: string): Promise<readonly string[]>;
  /** Ends what runs, and removes everything. */
  release(): Promise<void>;
}

export function makeNamespace(): TestNamespace {
  const netns = makeNetns();
  const name = basename(netns.path);
  const bpffs = makeBpffs();
  const processes: FollowerProcess[] = [];
  return {
    name,
    bpffs,
    ip: (...lines) => ipBatch(lines, name),
    async run(program, ...args) {
      const [first = '', ...rest] = insideNamespace(name, [program, ...args]);
      const { code, stdout, stderr } = await run(first, rest);
      if (code !== 0) throw new Error(`${program} ${args.join(' ')}: ${stderr}${stdout}`);
      return stdout;
    },
    async follow(settings = {}) {
      const input = {
        ...{ bpfRoot: bpffs.path, object: DEVICES_OBJECT, patterns: [] },
        ...{ order: 'outer', forceClsact: false, ...settings },
      };
      const process = await startFollower(name, JSON.stringify(input));
      processes.push(process);
      return process;
    },
    async evaluate(body, input) {
      const text = `const [root, json] = process.argv.slice(1);
        const load = (path) => import(root + '/' + path);
        const input = JSON.parse(json);
        (async () => { ${body} })().then(() => process.exit(0));`;
      return this.run(process.execPath, '-e', text, built('js'), JSON.stringify(input));
    },
    async attachedTo(device) {
      return JSON.parse(await this.evaluate(LIST_ATTACHED, { device })) as readonly string[];
    },
    async release() {
      for (const process of processes) await process.kill();
      netns.release();
      bpffs.release();
    },
  };
}

async function startFollower(namespace: string, input: string): Promise<FollowerProcess> {
  const node = [process.execPath, CHILD, built('js'), input];
  const [program = '', ...args] = insideNamespace(namespace, node);
  const states: State[] = [];
  const errors: string[] = [];
  const child: Child = start(program, args, {
    onStdoutLine: (line) => states.push(JSON.parse(line) as State),
    onStderrLine: (line) => errors.push(line),
  });
  const last = (): State => {
    const state = states.at(-1);
    if (state === undefined || child.hasExited()) throw new Error(errors.join('\n'));
    return state;
  };
  let asked = 0;
  const ask = async (command: string): Promise<State> => {
    asked += 1;
    const answer = asked;
    child.writeLine(command);
    const isAnswer = (state: State): boolean => state.answer === answer;
    return until(() => last() && states.find(isAnswer), {
      what: `an answer to ${command}`,
      timeoutMs: ANSWER_MS,
    });
  };
  await until(() => states.length > 0 || child.hasExited(), 'it to start');
  last();
  return {
    state: last,
    ask,
    until: (wait, holds) =>
      until(async () => {
        const state = await ask('state');
        return holds(state) ? state : undefined;
      }, wait),
    device: (name) => last().devices.find((device) => device.name === name),
    async kill() {
      child.kill('SIGKILL');
      await child.exited;
    },
  };
}
