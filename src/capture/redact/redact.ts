// SPDX-License-Identifier: Apache-2.0
// A capture for others' eyes: names and addresses are replaced, the same by the same, in every part of it. Ranges still hold
// what they held, ports stay. A part in which a name is left is not in the file. Pure.
import { recordOrEmpty } from '../../lib/json.ts';
import type { Capture, Printed, Unread } from '../format.ts';
import { createAddressMap, type Digest } from './addresses.ts';
import { createLeakCheck } from './leaks.ts';
import { createNames, HIDDEN_TEXT } from './names.ts';
import { createObjectRedaction } from './objects.ts';
import { redactRules } from './rules.ts';
import { createTexts } from './text.ts';
import { createValueRedaction } from './values.ts';

/** @param digest another secret gives other addresses */
export function redacted(capture: Capture, digest: Digest): Capture {
  const addresses = createAddressMap(digest);
  const names = createNames();
  const texts = createTexts(addresses, names, digest);
  const replacing = { names, texts };
  const object = createObjectRedaction(replacing, capture.objects ?? []);
  const value = createValueRedaction(replacing);
  const named = <T>(one: T): T => value(one, { isNaming: true }) as T;
  const loose = <T>(one: T, isNaming = false): T => value(one, { isNaming, isLoose: true }) as T;
  /** Names are known from these. */
  const structured = () => ({
    ...(capture.objects && { objects: capture.objects.map(object) }),
    settings: { ...named(capture.settings), flags: flagsOf(capture.settings.flags) },
    ...(capture.plan !== undefined && { plan: named(capture.plan) }),
    ...(capture.programmed && { programmed: named(capture.programmed) }),
    ...(capture.status !== undefined && { status: named(capture.status) }),
    node: names.alias(capture.node),
  });
  const flagsOf = (flags: Readonly<Record<string, string>>): Record<string, string> =>
    Object.fromEntries(
      Object.entries(flags).map(([flag, text]) => [
        flag,
        /^(?:true|false|\d+[a-z]*)$/.test(text) ? text : (texts.address(text) ?? HIDDEN_TEXT),
      ]),
    );
  const printed = (one: Printed): Printed => ({ ...one, text: printedJson(one.text, loose) });
  structured();
  names.resolve();
  const result: Capture = {
    ...capture,
    isRedacted: true,
    ...structured(),
    ...(capture.dataplanes && {
      dataplanes: value(capture.dataplanes, { isNaming: false }) as typeof capture.dataplanes,
    }),
    addresses: capture.addresses.map((one) => texts.address(one) ?? HIDDEN_TEXT),
    ...(capture.findings && { findings: loose(capture.findings) }),
    rules: capture.rules.map((one) => ({ ...one, text: redactRules(one.text, replacing) })),
    network: capture.network.map(printed),
    ...(capture.probe !== undefined && { probe: loose(capture.probe) }),
    ...(capture.metrics !== undefined && { metrics: metricsOf(capture.metrics, loose, names) }),
    ...(capture.events && { events: loose(capture.events, true) }),
    ...(capture.log && {
      log: capture.log.map((line) => printedJson(line, (one) => loose(one, true))),
    }),
    unread: loose(capture.unread),
  };
  return withoutLeaks(result, createLeakCheck(names, addresses));
}

/** JSON as JSON, other lines as texts. */
function printedJson(text: string, redact: <T>(value: T) => T): string {
  try {
    return JSON.stringify(redact(recordOr(JSON.parse(text))));
  } catch {
    return redact(text);
  }
}

const recordOr = (value: unknown): unknown => (Array.isArray(value) ? value : recordOrEmpty(value));

/** Labels that have names; all else as a text. */
const metricsOf = (
  metrics: string,
  redact: <T>(value: T) => T,
  { alias }: { alias(name: string): string },
): string =>
  redact(
    metrics.replace(
      /\b(namespace|service|node|port|zone)="([^"]*)"/g,
      (_, label, name) => `${label}="${alias(name)}"`,
    ),
  );

const LISTS: readonly string[] = ['rules', 'network', 'addresses'];

/** What still has a name in it is left out, and listed. */
function withoutLeaks(capture: Capture, leakIn: (text: string) => boolean): Capture {
  const unread: Unread[] = [];
  const members = Object.entries(capture).flatMap(([what, value]): readonly [string, unknown][] => {
    if (!leakIn(JSON.stringify(value) ?? '')) return [[what, value]];
    unread.push({ what, reason: 'left out: a name was found in it after --redact' });
    return LISTS.includes(what) ? [[what, []]] : [];
  });
  const whole = Object.fromEntries(members) as unknown as Capture;
  return { ...whole, unread: [...(whole.unread ?? []), ...unread] };
}
