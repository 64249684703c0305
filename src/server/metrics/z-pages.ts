// SPDX-License-Identifier: Apache-2.0
// /statusz and /flagz as kube-proxy 1.37 has them (k8s.io/component-base/zpages): text by default, and a
// versioned object for clients that name it in their Accept header.
import { sortedYaml } from '../../lib/yaml/write.ts';
import type { HttpResponse } from '../http/response.ts';

export interface ZFacts {
  readonly startedAt: Date;
  readonly version: string;
  /** By flag name, sorted. */
  readonly flagz: () => Readonly<Record<string, string>>;
}

type Kind = 'Statusz' | 'Flagz';

/** The component name that tools expect. */
const COMPONENT = 'kube-proxy';
/** The version of kube-proxy whose behaviour this program follows. */
const EMULATED = '1.37';
const PATHS = ['/configz', '/flagz', '/healthz', '/metrics', '/proxyMode'];
const WARNING =
  'Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees and is for debugging purposes only.';
const ACCEPTED = 'application/json, application/yaml, text/plain';
const VERSIONS = ['v1beta1', 'v1alpha1'];

export function zPageResponse(kind: Kind, accept: string | undefined, facts: ZFacts): HttpResponse {
  for (const range of (accept ?? '*/*').split(',')) {
    const [type = '', ...parameters] = range.split(';').map((part) => part.trim());
    if (['text/plain', 'text/*', '*/*', ''].includes(type)) {
      return plain(kind === 'Statusz' ? statuszText(facts) : flagzText(facts));
    }
    const answer = structured(kind, type, new Map(parameters.map(pairOf)), facts);
    if (answer !== undefined) return answer;
  }
  return notAcceptable();
}

const pairOf = (parameter: string): readonly [string, string] => {
  const [key = '', value = ''] = parameter.split('=');
  return [key, value];
};

const plain = (body: string): HttpResponse => ({
  status: 200,
  headers: { 'Content-Type': 'text/plain; charset=utf-8' },
  body,
});

function structured(
  kind: Kind,
  type: string,
  parameters: ReadonlyMap<string, string>,
  facts: ZFacts,
): HttpResponse | undefined {
  const version = parameters.get('v') ?? '';
  const isAskedFor = parameters.get('as') === kind && parameters.get('g') === 'config.k8s.io';
  if (!isAskedFor || !VERSIONS.includes(version)) return undefined;
  if (type !== 'application/json' && type !== 'application/yaml') return undefined;
  const object = {
    ...{ kind, apiVersion: `config.k8s.io/${version}`, metadata: { name: COMPONENT } },
    ...(kind === 'Statusz' ? statuszFields(facts) : { flags: facts.flagz() }),
  };
  const body = type === 'application/yaml' ? sortedYaml(object) : `${JSON.stringify(object)}\n`;
  const contentType = `${type};g=config.k8s.io;v=${version};as=${kind}`;
  return { status: 200, headers: { 'Content-Type': contentType }, body };
}

const upSeconds = ({ startedAt }: ZFacts): number =>
  Math.floor((Date.now() - startedAt.getTime()) / 1000);

const statuszFields = (facts: ZFacts) => ({
  startTime: facts.startedAt.toISOString().replace(/\.\d+Z$/, 'Z'),
  uptimeSeconds: upSeconds(facts),
  goVersion: `none, node ${process.version}`,
  binaryVersion: facts.version,
  emulationVersion: EMULATED,
  paths: PATHS,
});

function statuszText(facts: ZFacts): string {
  const fields = statuszFields(facts);
  const up = upSeconds(facts);
  const two = (value: number): string => String(value).padStart(2, '0');
  return [
    ...['', `${COMPONENT} statusz`, WARNING, ''],
    `Started: ${unixDate(facts.startedAt)}`,
    `Up: ${Math.floor(up / 3600)} hr ${two(Math.floor(up / 60) % 60)} min ${two(up % 60)} sec`,
    `Go version: ${fields.goVersion}`,
    `Binary version: ${fields.binaryVersion}`,
    `Emulation version: ${fields.emulationVersion}`,
    `Paths: ${PATHS.join(' ')}`,
    '',
  ].join('\n');
}

/** `Sat Nov 21 16:46:06 UTC 2026`. */
function unixDate(at: Date): string {
  const [weekday = '', day = '', month = '', year = '', time = ''] = at
    .toUTCString()
    .replace(',', '')
    .split(' ');
  return `${weekday} ${month} ${String(Number(day)).padStart(2)} ${time} UTC ${year}`;
}

const flagzText = ({ flagz }: ZFacts): string =>
  [
    ...['', `${COMPONENT} flagz`, WARNING],
    ...Object.entries(flagz()).map(([name, value]) => `${name}=${value}`),
    '',
  ].join('\n');

function notAcceptable(): HttpResponse {
  const message = `only the following media types are accepted: ${ACCEPTED}`;
  const status = { kind: 'Status', apiVersion: 'v1', metadata: {}, status: 'Failure', message };
  const body = `${JSON.stringify({ ...status, reason: 'NotAcceptable', code: 406 })}\n`;
  return { status: 406, headers: { 'Content-Type': 'application/json' }, body };
}
