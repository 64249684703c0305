// SPDX-License-Identifier: Apache-2.0
// Which object a list's item is, and in which version, from its first bytes: every API server writes them so. Anything else is
// decoded in full, so that a miss costs time and nothing more.

/** `UID VERSION`: every write of an object changes it, and no other object ever has it. */
export type Identity = string;

export const identityOf = (uid: string, version: string): Identity => [uid, version].join(' ');

/** Names, then these two: long enough for the longest names. */
const HEAD_BYTES = 1024;
const HEAD =
  /^\{(?:"kind":"\w+","apiVersion":"[\w./]+",)?"metadata":\{"name":"[\w.:-]+",(?:"generateName":"[\w.:-]+",)?(?:"namespace":"[\w.-]+",)?"uid":"([\w-]+)","resourceVersion":"(\w+)"/;

export function identityIn(item: Uint8Array): Identity | undefined {
  const head = Buffer.from(item.buffer, item.byteOffset, Math.min(item.byteLength, HEAD_BYTES));
  const [, uid, version] = HEAD.exec(head.toString('latin1')) ?? [];
  return uid === undefined || version === undefined ? undefined : identityOf(uid, version);
}
