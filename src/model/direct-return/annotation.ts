// SPDX-License-Identifier: Apache-2.0
// The annotation `fairlead.io/direct-return` of a Node, which its own agent writes: it takes requests for direct
// return, in which version of the tunnel, and at which port. Another version is another agent's affair.
import { type JsonRecord, shown } from '../../lib/json.ts';
import { annotationField, readAnnotation } from '../fields.ts';
import type { Reject } from '../rejection-collector.ts';

export const DIRECT_RETURN_ANNOTATION = 'fairlead.io/direct-return';
/** The UDP port of Geneve (RFC 8926). */
export const GENEVE_PORT = 6081;
/** The tunnel and the version of its option. */
const PROTOCOL = 'geneve/1';

export const directReturnText = (port: number): string =>
  port === GENEVE_PORT ? PROTOCOL : `${PROTOCOL}:${port}`;

/** The port; undefined if the node takes none in this version, or, with a rejection, if the text means nothing. */
export function readDirectReturn(object: JsonRecord, reject: Reject): number | undefined {
  const text = readAnnotation(object, DIRECT_RETURN_ANNOTATION, reject)?.trim();
  if (text === undefined) return undefined;
  const [, version = '', port = ''] = /^([a-z]+\/\d+)(?::(\d{1,5}))?$/.exec(text) ?? [];
  const number = port === '' ? GENEVE_PORT : Number(port);
  if (version !== '' && number >= 1 && number <= 65_535)
    return version === PROTOCOL ? number : undefined;
  return reject(
    annotationField(DIRECT_RETURN_ANNOTATION),
    `must be ${PROTOCOL} or ${PROTOCOL}:PORT, not ${shown(text)}; requests to this node are masqueraded`,
  );
}
