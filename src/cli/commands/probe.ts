// SPDX-License-Identifier: Apache-2.0
// `fairlead probe`: tries what fairlead needs in namespaces and a cgroup of its own, and says what a start does with
// it. Needs no agent, and changes nothing that an agent or anybody else uses.
import { release } from 'node:os';
import { resolve } from 'node:path';
import { Command, Option } from 'commander';
import { DEFAULT_CNI_FOLDER } from '../../config/instance-paths.ts';
import { rulesInUse } from '../../instance/leftovers/rules-in-use.ts';
import { checkIsCgroup2 } from '../../instance/preflight/checks.ts';
import { type Engine, featuresFor } from '../../probe/choice.ts';
import { exitCodeOf, reportOf } from '../../probe/report.ts';
import { type InsideParts, probeInside } from '../../probe/run/inside.ts';
import { findOnNode } from '../../probe/run/on-node.ts';
import { probe } from '../../probe/run/outside.ts';
import { timeoutOption } from '../flags.ts';
import { addOutputOption, machine, type OutputFormat, print } from '../output.ts';
import { probeText } from '../view/probe-text.ts';

interface ProbeCommandOptions {
  readonly output: OutputFormat;
  readonly engine: Engine;
  readonly cgroupRoot: string | undefined;
  readonly cniConfDir: string;
  readonly timeout: number;
  /** What the process that tries is to try, as JSON. */
  readonly inside: string | undefined;
}

export function probeCommand(): Command {
  const command = new Command('probe').description(
    'try what fairlead needs of this node, and say which engine a start uses; exits 3 if something is missing, 5 if no engine works',
  );
  const engine = new Option('--engine <engine>', 'engine that a start is asked for')
    .choices(['auto', 'bpf', 'iptables', 'nftables', 'userspace'])
    .default('auto');
  return addOutputOption(command, ['table', 'wide', 'json', 'yaml'])
    .addOption(engine)
    .option('--cgroup-root <dir>', 'cgroup v2 directory below which a cgroup is made for a moment')
    .option('--cni-conf-dir <dir>', 'directory with the CNI configurations', DEFAULT_CNI_FOLDER)
    .addOption(timeoutOption('maximum time of one attempt', '10s'))
    .addOption(new Option('--inside <json>').hideHelp())
    .action(probeNode);
}

async function probeNode(options: ProbeCommandOptions): Promise<void> {
  const { output, engine, cgroupRoot, cniConfDir, timeout: timeoutMs, inside } = options;
  if (inside !== undefined) {
    await probeInside(JSON.parse(inside) as InsideParts, print);
    return;
  }
  // First: this thread leaves the network namespace of the node.
  const isAlone = engine === 'userspace';
  const inUse = isAlone ? {} : rulesInUse();
  const onThisNode = isAlone ? [] : await findOnNode(cniConfDir, cgroupRoot);
  const features = featuresFor(engine);
  const results = await probe({ cgroupRoot: checkedRoot(cgroupRoot), timeoutMs, features });
  const report = reportOf(results, release(), engine, onThisNode, inUse);
  process.exitCode = exitCodeOf(report);
  const { kind } = output;
  const isText = kind === 'table' || kind === 'wide';
  print(isText ? probeText(report, kind === 'wide') : await machine(report, output));
}

/** undefined: the root of the hierarchy, or none, which is an answer of the probe. */
function checkedRoot(asked: string | undefined): string | undefined {
  if (asked === undefined) return undefined;
  const path = resolve(asked);
  checkIsCgroup2(path);
  return path;
}
