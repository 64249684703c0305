// SPDX-License-Identifier: Apache-2.0
// `fairlead validate`: reports what `run` would reject in manifests and in a configuration file, with file and
// line. Needs neither privileges nor an agent.
import { readdirSync, statSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { Command } from 'commander';
import type { FlagValues } from '../../config/flags/flags.ts';
import { loadConfig } from '../../config/load.ts';
import type { Config } from '../../config/types.ts';
import { EXIT, FairleadError, reasonOf } from '../../errors.ts';
import { compareText } from '../../lib/names.ts';
import { refText } from '../../model/object-ref.ts';
import type { ObjectChange, ObjectRef } from '../../model/types.ts';
import { createPlanner } from '../../plan/planner.ts';
import type { Plan } from '../../plan/types.ts';
import { type ManifestSource, openManifests } from '../../source/manifests/manifests.ts';
import { addPlanFlags, flagValues } from '../config-flags.ts';
import { addOutputOption, machine, type OutputFormat, print, say } from '../output.ts';

/** A value that `run` would reject (error), or ignore or remap (warning), or an object that is not for a proxy (note). */
export interface Finding {
  readonly severity: 'error' | 'warning' | 'note';
  /** `web.yaml:12`, or the name of a flag. */
  readonly location: string;
  /** `Service default/web` */
  readonly object?: string;
  /** `spec.ports[0].port` */
  readonly field?: string;
  readonly reason: string;
}

interface ValidateOptions {
  readonly output: OutputFormat;
  readonly strict: boolean;
}

export function validateCommand(): Command {
  const command = new Command('validate')
    .description('check manifests and a configuration file (--config); exits 1 if any is invalid')
    .argument('[manifests...]', 'files or folders of Service, EndpointSlice and Node manifests')
    .option('--strict', 'treat warnings as errors', false);
  return addPlanFlags(addOutputOption(command, ['text', 'json', 'yaml'])).action(
    (paths: readonly string[], options: ValidateOptions) => validate(paths, options, command),
  );
}

async function validate(
  paths: readonly string[],
  { output, strict }: ValidateOptions,
  command: Command,
): Promise<void> {
  const items = await findingsOf(paths, flagValues(command));
  if (output.kind === 'text') {
    for (const finding of items) print(findingText(finding));
    say(summaryOf(items));
  } else {
    const report = { apiVersion: 'fairlead.io/v1', kind: 'ValidationReport', items };
    print(await machine(report, output));
  }
  process.exitCode = exitCodeOf(items, strict);
}

/** Throws BAD_OPTION, NO_MANIFESTS where there is nothing to check. */
export async function findingsOf(
  paths: readonly string[],
  flags: FlagValues,
): Promise<readonly Finding[]> {
  if (paths.length === 0 && flags['config'] === undefined) {
    throw new FairleadError(
      'BAD_OPTION',
      'nothing to validate: name manifests, or a configuration file with --config',
    );
  }
  const { config, findings } = readConfig(flags);
  const all = [...findings];
  for (const path of paths) all.push(...(await checkManifests(path, config)));
  return all;
}

export function exitCodeOf(findings: readonly Finding[], isStrict: boolean): number {
  const isFine = findings.every(
    ({ severity }) => severity === 'note' || (severity === 'warning' && !isStrict),
  );
  return isFine ? EXIT.fine : EXIT.failed;
}

/** If the configuration is invalid, manifests are validated with the defaults. */
function readConfig(flags: FlagValues): {
  readonly config: Config;
  readonly findings: readonly Finding[];
} {
  try {
    const { config } = loadConfig(flags);
    const findings = config.warnings.map(({ location, field, reason }) => ({
      severity: 'warning' as const,
      ...{ location, field, reason },
    }));
    return { config, findings };
  } catch (error) {
    const isInFile = flags['config'] !== undefined;
    if (!(error instanceof FairleadError) || error.code !== 'BAD_OPTION' || !isInFile) throw error;
    const findings = error.message.split('\n').map(errorOfLine);
    return { config: loadConfig({}).config, findings };
  }
}

/** `c.yaml:12: conntrack.min: must be …` */
function errorOfLine(line: string): Finding {
  const [, location = '', reason = line] = /^(\S+?:\d+): (.*)$/.exec(line) ?? [];
  return { severity: 'error', location, reason };
}

async function checkManifests(path: string, config: Config): Promise<readonly Finding[]> {
  const top = resolve(path);
  const facts = statSync(top, { throwIfNoEntry: false });
  if (facts === undefined) throw new FairleadError('NO_MANIFESTS', `${path} does not exist`);
  const isFolder = facts.isDirectory();
  const folder = isFolder ? top : dirname(top);
  const unlisted = unlistedReason(folder);
  if (unlisted !== undefined) return [{ ...at(folder, undefined), reason: unlisted }];
  const { source, changes } = await readOnce(folder);
  try {
    const locate = (ref: ObjectRef, field: string) => {
      const found = source.locate(ref, field);
      return at(found?.file, found?.line);
    };
    const isMeant = (file: string | undefined): boolean => isFolder || file === top;
    const own = changes.filter(({ ref }) => isMeant(source.locate(ref, '')?.file));
    const plan = createPlanner(config.plan).apply(own);
    const unread = source
      .problems()
      .filter(({ file }) => isMeant(file))
      .map(({ file, line, object, reason, isWarning, isNote }) => ({
        ...at(file, line),
        ...(isWarning === true && ({ severity: isNote === true ? 'note' : 'warning' } as const)),
        ...(object !== undefined && { object: refText(object) }),
        reason: isConfigurationKind(reason)
          ? `${reason}; to check a configuration file, name it with --config`
          : reason,
      }));
    const rejected = plan.rejections.map(({ object, field, reason, isWarning }) => ({
      ...locate(object, field),
      ...(isWarning === true && { severity: 'warning' as const }),
      ...{ object: refText(object), field, reason },
    }));
    if (!isFolder && own.length === 0 && unread.length === 0) {
      const reason = 'not a manifest: the file name must end in .yaml, .yml or .json';
      return [{ ...at(top, undefined), reason }];
    }
    return [...unread, ...rejected, ...notesOf(plan, locate, isFolder)].sort(byPlace);
  } finally {
    source.close();
  }
}

/** By file, then line: the order in which people mend them. */
function byPlace(a: Pick<Finding, 'location'>, b: Pick<Finding, 'location'>): number {
  const [fileA, lineA] = placeOf(a.location);
  const [fileB, lineB] = placeOf(b.location);
  return compareText(fileA, fileB) || lineA - lineB;
}

function placeOf(location: string): readonly [string, number] {
  const [, file = location, line = '0'] = /^(.*):(\d+)$/.exec(location) ?? [];
  return [file, Number(line)];
}

/** In one file alone EndpointSlices are often missing: they are in another one, or the control plane writes them. */
function notesOf(
  { services }: Plan,
  locate: (ref: ObjectRef, field: string) => Pick<Finding, 'location'>,
  isFolder: boolean,
): readonly Finding[] {
  return [...services.values()].flatMap(({ namespace, name, ports, unserved = [] }) => {
    const ref: ObjectRef = { kind: 'Service', namespace, name };
    const empty = ports.flatMap(({ emptyNote }) =>
      emptyNote === undefined || (emptyNote.kind === 'no-slices' && !isFolder)
        ? []
        : [{ field: 'spec.ports', reason: emptyNote.reason }],
    );
    const distinct = new Map([...empty, ...unserved].map((note) => [note.reason, note]));
    return [...distinct.values()].map(({ field, reason }) => ({
      ...locate(ref, field),
      ...{ severity: 'warning' as const, object: refText(ref), field, reason },
    }));
  });
}

const isConfigurationKind = (reason: string): boolean =>
  /^kind "(KubeProxy|Fairlead)Configuration"/.test(reason);

const at = (file: string | undefined, line: number | undefined) => ({
  severity: 'error' as const,
  location: line === undefined ? shortened(file ?? '') : `${shortened(file ?? '')}:${line}`,
});

/** Relative to the working directory where that is shorter. */
function shortened(file: string): string {
  const here = `${process.cwd()}/`;
  return file.startsWith(here) ? file.slice(here.length) : file;
}

/** A folder that cannot be listed is never synced: waiting for it has no end. */
function unlistedReason(folder: string): string | undefined {
  try {
    readdirSync(folder);
    return undefined;
  } catch (error) {
    return reasonOf(error);
  }
}

function readOnce(
  dir: string,
): Promise<{ readonly source: ManifestSource; readonly changes: readonly ObjectChange[] }> {
  return new Promise((done) => {
    const changes: ObjectChange[] = [];
    const source = openManifests(dir, {
      onChanges: (delivered) => void changes.push(...delivered),
      onSynced: () => done({ source, changes }),
      onProblems: () => undefined,
    });
  });
}

/** The format of compilers, which editors and CI systems recognize. */
export function findingText({ severity, location, object, field, reason }: Finding): string {
  return [location, severity, object, field, reason]
    .filter((part) => part !== undefined && part !== '')
    .join(': ');
}

export function summaryOf(findings: readonly Finding[]): string {
  const countOf = (wanted: Finding['severity']): number =>
    findings.filter(({ severity }) => severity === wanted).length;
  const errors = countOf('error');
  const warnings = countOf('warning');
  if (errors + warnings === 0) return 'valid';
  const counted = (count: number, noun: string): string =>
    `${count} ${noun}${count === 1 ? '' : 's'}`;
  return `${counted(errors, 'error')}, ${counted(warnings, 'warning')}`;
}
