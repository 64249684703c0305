// SPDX-License-Identifier: Apache-2.0
// File and flags -> the one Config, or every problem at once. The rules of precedence are kube-proxy's
// (cmd/kube-proxy/app/options.go): with a file, flags that describe the proxy are ignored. Strict where
// kube-proxy falls back to lenient decoding: an unknown setting must not be dropped silently.
import type { z } from 'zod';
import { FairleadError } from '../errors.ts';
import { isRecord, type JsonRecord } from '../lib/json.ts';
import { assemble } from './assemble.ts';
import { withDefaults } from './defaults.ts';
import { diagnosticsOf, type Locate } from './diagnostics.ts';
import { type ConfigDocument, readDocuments } from './file/documents.ts';
import { OWN_API, OWN_KIND, ownSchema } from './file/fairlead-schema.ts';
import { KUBE_PROXY_API, KUBE_PROXY_KIND, kubeProxySchema } from './file/schema.ts';
import { type FlagDocuments, type FlagValues, flagLocator, readFlags } from './flags/flags.ts';
import { type Config, type Diagnostic, diagnosticText } from './types.ts';
import { problemsOf } from './validate.ts';
import { ownWarningsOf, warningsOf } from './warnings.ts';

export interface ConfigInput {
  /** --config: its path as the user wrote it, and its text. */
  readonly file?: { readonly path: string; readonly text: string };
  readonly flags: FlagValues;
  /** The operating system's, if there is no override. */
  readonly hostname: string;
}

/** Throws FairleadError BAD_OPTION (exit code 2) whose message names every problem, one per line. */
export function resolveConfig(input: ConfigInput): Config {
  const { file, flags } = input;
  const given = readFlags(flags, file !== undefined);
  const inFile = file === undefined ? NO_FILE : readDocuments(file.path, file.text);
  refuseIfAny([...given.problems, ...inFile.problems]);
  const proxy = merged('kubeProxy', inFile.kubeProxy, given);
  const own = merged('own', inFile.own, given);
  const proxyInput = checked(kubeProxySchema, proxy);
  const ownInput = checked(ownSchema, own);
  refuseIfAny([...proxyInput.problems, ...ownInput.problems]);
  if (proxyInput.value === undefined || ownInput.value === undefined)
    throw new Error('unreachable');
  const document = withDefaults(proxyInput.value);
  refuseIfAny(problemsOf(proxyInput.value, document, proxy.locate));
  const { config, problems } = assemble({
    document,
    proxy: proxyInput.value,
    own: ownInput.value,
    flags: file === undefined ? flags : withoutProxyPorts(flags),
    hostname: input.hostname,
    locate: proxy.locate,
  });
  refuseIfAny(problems);
  return {
    ...config,
    warnings: [
      ...given.warnings,
      ...warningsOf(proxyInput.value, proxy.locate, config.engine),
      ...ownWarningsOf(ownInput.value, own.locate, config.engine),
      ...config.warnings,
    ],
  };
}

const NO_FILE = { kubeProxy: undefined, own: undefined, problems: [] };

/** With a file kube-proxy ignores these too, and readFlags has warned about them. */
function withoutProxyPorts(flags: FlagValues): FlagValues {
  const names = ['healthz-port', 'metrics-port', 'healthz-bind-address', 'metrics-bind-address'];
  return Object.fromEntries(Object.entries(flags).filter(([flag]) => !names.includes(flag)));
}

function refuseIfAny(problems: readonly Diagnostic[]): void {
  if (problems.length === 0) return;
  // A flag that sets several fields is wrong once.
  const texts = new Set(problems.map(diagnosticText));
  throw new FairleadError('BAD_OPTION', [...texts].join('\n'));
}

/** The file's document overridden by flags; each setting is located where it came from. */
function merged(
  which: 'kubeProxy' | 'own',
  inFile: ConfigDocument | undefined,
  given: FlagDocuments,
): ConfigDocument {
  const header =
    which === 'own'
      ? { apiVersion: OWN_API, kind: OWN_KIND }
      : { apiVersion: KUBE_PROXY_API, kind: KUBE_PROXY_KIND };
  const byFlag = flagLocator(which);
  const locate: Locate = (path) =>
    inFile === undefined || given.isGiven(which, path) ? byFlag(path) : inFile.locate(path);
  return { value: overridden(inFile?.value ?? header, given[which]), locate };
}

function overridden(below: JsonRecord, above: JsonRecord): JsonRecord {
  const result: Record<string, unknown> = { ...below };
  for (const [key, value] of Object.entries(above)) {
    const under = result[key];
    result[key] = isRecord(under) && isRecord(value) ? overridden(under, value) : value;
  }
  return result;
}

function checked<T>(
  schema: z.ZodType<T>,
  { value, locate }: ConfigDocument,
): { readonly value: T | undefined; readonly problems: readonly Diagnostic[] } {
  const result = schema.safeParse(value);
  return result.success
    ? { value: result.data, problems: [] }
    : { value: undefined, problems: diagnosticsOf(result.error.issues, value, locate) };
}
