// SPDX-License-Identifier: Apache-2.0
// `fairlead compare`: whether two proxies do the same with every packet: the plan of the API's objects and the rules that are in
// the kernel, or two sets of rules. Attaches nothing, changes nothing, and needs no agent.
import { setTimeout as sleep } from 'node:timers/promises';
import { Command, InvalidArgumentError, Option } from 'commander';
import type { Capture } from '../../capture/format.ts';
import { compare, type Difference } from '../../compare/compare.ts';
import { reasonsOf } from '../../compare/known.ts';
import { withoutOwnAnnotations } from '../../compare/plain.ts';
import { isProven, isUnexplained } from '../../compare/proof.ts';
import { planSide } from '../../compare/sides/plan-side.ts';
import type { Destination } from '../../compare/walk/path.ts';
import { type LoadedConfig, loadConfig } from '../../config/load.ts';
import { diagnosticText } from '../../config/types.ts';
import { EXIT, FairleadError } from '../../errors.ts';
import { recordedAddresses } from '../../instance/dataplanes.ts';
import { familyOf } from '../../lib/ip.ts';
import { createLogger, type Logger } from '../../log.ts';
import { createPlanner } from '../../plan/planner.ts';
import type { Plan } from '../../plan/types.ts';
import { letNewSpaceGrow } from '../../sys/process/memory.ts';
import { addCaptureOption } from '../capture/answers.ts';
import { readCapture } from '../capture/file.ts';
import { addPlanFlags, flagValues } from '../config-flags.ts';
import { durationMs, timeoutOption } from '../flags.ts';
import { addOutputOption, machine, type OutputFormat, print, say } from '../output.ts';
import { ownAddresses } from '../own-addresses.ts';
import { capturedPlan, changesIn, rulesInCapture } from './captured.ts';
import { readObjects } from './objects.ts';
import { type Outcome, reportText, reportValue } from './report.ts';
import { type Pair, pairsOf, SIDE_NAMES } from './sides.ts';

interface CompareOptions {
  readonly output: OutputFormat;
  readonly retryAfter: number;
  readonly timeout: number;
  readonly capture?: string;
  readonly service?: string;
}

export function compareCommand(): Command {
  const command = new Command('compare')
    .description(
      'prove that two proxies do the same with every packet, or list what differs; exits 3 if a difference has no known reason',
    )
    .argument(
      '[sides...]',
      `two of ${SIDE_NAMES.join(', ')}, or files with rules (default: plan, and the rules of the node)`,
    )
    .addOption(
      new Option('--retry-after <duration>', 'if there are differences, read again after this time')
        .argParser(durationMs)
        .default(durationMs('2s'), '2s'),
    )
    .addOption(
      new Option(
        '--service <namespace/name>',
        'tell only what differs where this Service is, and prove nothing of others',
      ).argParser(serviceName),
    )
    .addOption(timeoutOption('how long to wait for the lists of the API server', '30s'));
  return addPlanFlags(
    addOutputOption(addCaptureOption(command), ['text', 'wide', 'json', 'yaml']),
    ['manifests', 'kubeconfig', 'api-servers', 'run-dir'],
  ).action((names: readonly string[], options: CompareOptions) => run(names, options, command));
}

async function run(
  names: readonly string[],
  { output, retryAfter, timeout, service, capture: path }: CompareOptions,
  command: Command,
): Promise<void> {
  letNewSpaceGrow();
  if (names.length > 2) command.error('error: name at most two sides');
  const loaded = loadConfig(flagValues(command));
  for (const warning of loaded.config.warnings) say(diagnosticText(warning));
  const log = createLogger('error', 'text');
  const capture = path === undefined ? undefined : readCapture(path);
  const isNamed = (flag: string): boolean => command.getOptionValueSource(flag) === 'cli';
  const isMeasured =
    (service ?? capture) !== undefined || ['manifests', 'kubeconfig', 'config'].some(isNamed);
  const keepsKnown = output.kind !== 'text';
  const asked = { names, isMeasured, keepsKnown, service, capture, timeoutMs: timeout };
  let outcomes = await outcomesOf(asked, loaded, log);
  if (outcomes.some(isOpen) && retryAfter > 0 && capture === undefined) {
    // A proxy that is just writing its rules is behind for a moment.
    await sleep(retryAfter);
    outcomes = await outcomesOf(asked, loaded, log);
  }
  const isMachine = output.kind !== 'text' && output.kind !== 'wide';
  print(
    isMachine
      ? await machine(reportValue(outcomes), output)
      : reportText(outcomes, output.kind === 'wide'),
  );
  process.exitCode = outcomes.some(isOpen) ? EXIT.degraded : EXIT.fine;
}

const isOpen = ({ comparison }: Outcome): boolean => !isProven(comparison);

interface Asked {
  readonly names: readonly string[];
  readonly isMeasured: boolean;
  readonly timeoutMs: number;
  /** Not only how many there are of each reason. */
  readonly keepsKnown: boolean;
  /** Instead of this node. */
  readonly capture?: Capture | undefined;
  /** `default/web`; undefined: all. */
  readonly service: string | undefined;
}

async function outcomesOf(
  { names, isMeasured, timeoutMs, keepsKnown, service, capture }: Asked,
  loaded: LoadedConfig,
  log: Logger,
): Promise<readonly Outcome[]> {
  const addresses = capture?.addresses ?? nodesOwn(loaded.config.own.runDir);
  const settings = capture?.settings.plan ?? loaded.config.plan;
  let plain: Plan | undefined;
  const pairs = await pairsOf({
    ...{ names, isMeasured },
    addresses: (family) => ({
      own: addresses.filter((one) => isOfDevices(one) && familyOf(one) === family),
    }),
    ...(capture && { onNode: () => rulesInCapture(capture) }),
    plan: async () => {
      const changes = capture ? changesIn(capture) : await readObjects(loaded, log, timeoutMs);
      const planned = (some: NonNullable<typeof changes>): Plan =>
        createPlanner(settings).apply(some);
      const plan =
        capture && changes === undefined ? capturedPlan(capture) : planned(changes ?? []);
      if (service !== undefined && !plan.services.has(service))
        throw new FairleadError('NOT_FOUND', `--service ${service}: no such Service is served`);
      if (changes === undefined) return plan;
      const without = withoutOwnAnnotations(changes);
      plain = without === changes ? plan : planned(without);
      return plan;
    },
  });
  return pairs.map((pair) => {
    const { sides, node, family } = pair;
    const without = plain && planSide(plain, family, node);
    const reasonOf = reasonsOf({ sides, node, plain: without });
    const isKept = (found: Difference): boolean => keepsKnown || isUnexplained(found);
    const compared = service === undefined ? pair : { ...pair, isAsked: isOf(service, pair) };
    return { pair, comparison: compare(compared, { reasonOf, isKept }) };
  });
}

const isOfDevices = (address: string): boolean => !/^(?:127\.|::1$)/.test(address);

/** Without addresses of Services that an agent with userspace has added: to the rules of others these are no node's. */
function nodesOwn(runDir: string): readonly string[] {
  const added = new Set(recordedAddresses(runDir));
  return ownAddresses().filter((one) => !added.has(one));
}

const isOf =
  (service: string, { sides: [left, right] }: Pair) =>
  (destination: Destination): boolean =>
    (left.claimAt(destination) ?? right.claimAt(destination))?.service === service;

/** `default/web`. Throws InvalidArgumentError. */
function serviceName(text: string): string {
  if (/^[^\s/]+\/[^\s/]+$/.test(text)) return text;
  throw new InvalidArgumentError(`"${text}" is no namespace/name such as default/web`);
}
