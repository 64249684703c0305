// SPDX-License-Identifier: Apache-2.0
// An element of a set or map of Services, as nft prints it -> as the kernel takes it.
//   10.96.0.10 . tcp . 80 comment "default/web:http" : goto reject-chain
import type { Family } from '../../../../model/types.ts';
import { VERDICTS, value, verdictValue } from '../../../../sys/netlink/nft/expressions.ts';
import { attribute } from '../../../../sys/netlink/wire.ts';
import { commentData, valueBytes } from './values.ts';

export const NFTA_SET_ELEM = { KEY: 1, DATA: 2, USERDATA: 6 } as const;
const LIST_ELEM = 1;

/**
 * @param declared `type ipv4_addr : verdict`
 * @param text what is printed behind the key; '' names an element that is removed
 * @returns undefined: nft has to write it
 */
export function elementAttribute(
  declared: string,
  key: string,
  text: string,
  family: Family,
): Uint8Array | undefined {
  const [, keyType = '', valueType = ''] = /^type(?:of)? (.*?)(?: : (.*))?$/m.exec(declared) ?? [];
  const [, comment, data = ''] = /^(?: comment "([^"\\]*)")?(?: : (.*))?$/.exec(text) ?? [];
  const keyBytes = valueBytes(keyType, key, family);
  const dataAttribute = data === '' ? undefined : dataOf(valueType, data, family);
  const isWhole = text === '' || comment !== undefined || data !== '';
  if (keyBytes === undefined || !isWhole || (data !== '' && dataAttribute === undefined))
    return undefined;
  return attribute(
    LIST_ELEM,
    value(NFTA_SET_ELEM.KEY, keyBytes),
    ...(dataAttribute === undefined ? [] : [dataAttribute]),
    ...(comment === undefined ? [] : [attribute(NFTA_SET_ELEM.USERDATA, commentData(comment))]),
  );
}

function dataOf(type: string, text: string, family: Family): Uint8Array | undefined {
  if (type !== 'verdict') {
    const bytes = valueBytes(type, text, family);
    return bytes && value(NFTA_SET_ELEM.DATA, bytes);
  }
  const [name = '', chain = ''] = text.split(' ');
  return VERDICTS[name] === undefined ? undefined : verdictValue(NFTA_SET_ELEM.DATA, name, chain);
}
