// SPDX-License-Identifier: Apache-2.0
// Which frontends of a Service are made, and on which nodes, from its annotations `fairlead.io/expose` and
// `fairlead.io/expose-on-nodes`. What cannot be read exposes nothing: it was written to close something.
import { isRecord, type JsonRecord, shown } from '../../lib/json.ts';
import { ANNOTATIONS } from '../annotations.ts';
import { annotationField } from '../fields.ts';
import type { Reject } from '../rejection-collector.ts';
import { parseSelector } from '../selector.ts';
import { type Exposure, FRONTEND_KINDS, type FrontendKind } from '../types.ts';

/** The annotation's value, whatever it is; undefined: there is none. */
export function rawAnnotation(object: JsonRecord, name: string): unknown {
  const { metadata } = object;
  const annotations = isRecord(metadata) ? metadata['annotations'] : undefined;
  if (!isRecord(annotations) || !Object.hasOwn(annotations, name)) return undefined;
  return annotations[name] ?? undefined;
}

export function readExposure(object: JsonRecord, reject: Reject): Exposure | undefined {
  const kinds = readKinds(rawAnnotation(object, ANNOTATIONS.kinds.name), reject);
  const nodes = readNodes(rawAnnotation(object, ANNOTATIONS.nodes.name), reject);
  if (kinds === undefined && nodes === undefined) return undefined;
  return { ...(kinds !== undefined && { kinds }), ...(nodes !== undefined && { nodes }) };
}

/** Those that can be read, in the order of FRONTEND_KINDS. */
function readKinds(value: unknown, reject: Reject): readonly FrontendKind[] | undefined {
  if (value === undefined) return undefined;
  const names = typeof value === 'string' ? value.split(',').map((name) => name.trim()) : [value];
  const wrong = names.filter((name) => !FRONTEND_KINDS.some((kind) => kind === name));
  if (wrong.length > 0)
    reject(
      annotationField(ANNOTATIONS.kinds.name),
      `must be text with commas of ${FRONTEND_KINDS.join(', ')}, not ${wrong.map(shown).join(', ')}`,
      wrong.length < names.length ? 'the others are exposed' : ANNOTATIONS.kinds.instead,
    );
  return FRONTEND_KINDS.filter((kind) => names.includes(kind));
}

function readNodes(value: unknown, reject: Reject): string | undefined {
  if (value === undefined) return undefined;
  const text = typeof value === 'string' ? value.trim() : '';
  if (parseSelector(text) !== undefined) return text;
  const example = 'a label selector such as role=edge,zone in (a,b),!spare';
  reject(
    annotationField(ANNOTATIONS.nodes.name),
    `must be ${example}, not ${shown(value)}`,
    ANNOTATIONS.nodes.instead,
  );
  return '';
}
