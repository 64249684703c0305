// SPDX-License-Identifier: Apache-2.0
// Other people's nodes: the cluster of ../fixture with something else on its nodes, played on every proxy. A file of
// test/integration/nodes is one kind of node: it adds what such a node has, says what a client must get, and kube-proxy
// is asked the same.
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe } from 'vitest';
import type { ObjectChange } from '../../../src/model/types.ts';
import type { PlanSettings } from '../../../src/plan/types.ts';
import { type RunResult, run } from '../../../src/sys/exec.ts';
import { insideNamespace } from '../../../src/sys/netns.ts';
import { compiledPath } from '../../../tools/lab/sandbox.ts';
import { fixture, named } from '../../conformance/story.ts';
import { type ObjectText, textOf } from '../fixture/cases/case.ts';
import { NODES } from '../fixture/network/addresses.ts';
import type { ProbeOptions, ProbeTarget } from '../fixture/programs/probe.ts';
import { fairleadPaths } from '../fixture/proxies/fairlead.ts';
import type { Stage, StageOptions } from '../fixture/stage.ts';
import { useStage } from '../fixture/tests.ts';
import { type Expected, untilAnswer } from './answers.ts';
import { isAbsent, MODES, PROXIES, type ProxyName, startOf } from './proxies.ts';

export interface OtherNodeOptions extends Partial<Omit<StageOptions, 'mode' | 'start'>> {
  /** Of fairlead. */
  readonly flags?: readonly string[];
  /** Of the configuration of kube-proxy. */
  readonly fields?: object;
  /** Default: all. */
  readonly proxies?: readonly ProxyName[];
}

/** Four nodes; n1 is the one with something on it, by custom. Names of clients and targets are those of addresses.ts. */
export interface OtherNode {
  readonly proxy: ProxyName;
  stage(): Stage;
  /** Replaces all objects, each the name of one of test/conformance/fixture.yaml or one with a merge patch. Starts the proxies. */
  serve(objects: readonly ObjectText[], settings?: Partial<PlanSettings>): Promise<void>;
  put(...objects: readonly ObjectText[]): Promise<void>;
  remove(...objects: readonly ObjectText[]): Promise<void>;
  /** Runs a program in the namespace of a node, a pod or someone outside; throws unless it succeeds. @returns its stdout */
  run(short: string, argv: readonly string[], stdin?: string): Promise<string>;
  /** Adds rules in the syntax of iptables-save, by `iptables-nft-restore` and its kin, without a flush. */
  rules(short: string, tool: RestoreTool, lines: readonly string[]): Promise<void>;
  /** Runs `nft -f -`. */
  nft(short: string, script: string): Promise<void>;
  /** New sockets of a client: the backends that answered, as `A:8080 B:8080`, or the error. `stage().probe` tells more. */
  ask(client: string, target: ProbeTarget, options?: ProbeOptions): Promise<string>;
  /** `ask` until the answer is as expected. `what` names the answer in what `npm run -s other-nodes` prints. */
  sees(what: string, expected: Expected, look: () => Promise<string>): Promise<void>;
  /** A command of fairlead's instance on a node, such as `status -o json`. */
  fairlead(short: string, ...args: readonly string[]): Promise<RunResult>;
  /** The end of the proxy's log on a node. */
  log(short: string): string;
}

export type RestoreTool = `${'iptables' | 'ip6tables'}-${'legacy' | 'nft'}`;

/** @param kind the name of the file in build/test/nodes */
export function onEachProxy(
  kind: string,
  { flags = [], fields, proxies = PROXIES, network = 'routed', ...options }: OtherNodeOptions,
  tests: (node: OtherNode) => void,
): void {
  for (const proxy of proxies) {
    describe.skipIf(isAbsent(proxy))(proxy, () => {
      const start = startOf(proxy, flags, fields);
      const stage = useStage({ ...options, network, mode: MODES[proxy], start });
      tests(otherNode(kind, proxy, stage));
    });
  }
}

function otherNode(kind: string, proxy: ProxyName, stage: () => Stage): OtherNode {
  const runIn: OtherNode['run'] = async (short, argv, stdin = '') => {
    const { code, stdout, stderr } = await runQuietly(stage(), short, argv, stdin);
    if (code !== 0) throw new Error(`${argv.join(' ')} in ${short}: ${stderr.trim()}`);
    return stdout;
  };
  return {
    ...{ proxy, stage, run: runIn },
    serve: (objects, settings = {}) =>
      stage().reset([...NODES.map(({ name }) => name), 'range', ...objects].map(toPut), {
        ...fixture.settings,
        ...settings,
      }),
    put: (...objects) => stage().change(objects.map(toPut)),
    remove: (...objects) =>
      stage().change(objects.map((text) => ({ type: 'remove', ref: named(text).ref }))),
    rules: async (short, tool, lines) =>
      void (await runIn(short, [`${tool}-restore`, '--noflush', '-w', '5'], textOfLines(lines))),
    nft: async (short, script) => void (await runIn(short, ['nft', '-f', '-'], script)),
    ask: async (client, target, probeOptions) =>
      textOf(await (await stage().probe(client)).burst(target, probeOptions)),
    sees: (what, expected, look) => untilAnswer({ proxy, kind, what }, expected, look),
    fairlead: (short, ...args) => {
      const { bpfRoot, runDir } = fairleadPaths(stage().cluster, short);
      const own = ['--run-dir', runDir, ...(ASK_AGENT.has(args[0]) ? [] : ['--bpf-root', bpfRoot])];
      const argv = [process.execPath, compiledPath('main.js'), ...args, ...own];
      return runQuietly(stage(), short, argv);
    },
    log: (short) => stage().proxies.tail(short),
  };
}

/** Commands that read no pinned maps. */
const ASK_AGENT: ReadonlySet<string | undefined> = new Set(['status', 'explain', 'audit']);

const textOfLines = (lines: readonly string[]): string => `${lines.join('\n')}\n`;

const toPut = (text: ObjectText): ObjectChange => ({ type: 'put', ...named(text) });

/** Rules belong to a namespace, but the lock of their tools would be the machine's. */
function runQuietly(
  { cluster: { prefix, directory } }: Stage,
  short: string,
  argv: readonly string[],
  stdin = '',
): Promise<RunResult> {
  const isNode = NODES.some(({ name }) => name === short);
  const folder = isNode ? join(directory, 'nodes', short) : directory;
  mkdirSync(folder, { recursive: true });
  const lock = `XTABLES_LOCKFILE=${join(folder, 'xtables.lock')}`;
  const [program = '', ...args] = insideNamespace(`${prefix}-${short}`, ['env', lock, ...argv]);
  return run(program, args, { stdin });
}
