// SPDX-License-Identifier: Apache-2.0
// What `fairlead status` says of direct return.
import type { Status } from '../../../observe/status.ts';

type Line = readonly [label: string, text: string];

/** `4 of 5 other nodes take requests`. */
export function directReturnLines({ directReturn }: Pick<Status, 'directReturn'>): readonly Line[] {
  if (directReturn === undefined) return [];
  const { willing, known, cookies } = directReturn;
  return [
    ['Direct', `return: ${willing} of ${known} other nodes take requests`],
    ...(cookies === undefined ? [] : [['Cookies', cookiesText(cookies)] as const]),
  ];
}

type Cookies = NonNullable<NonNullable<Status['directReturn']>['cookies']>;

/** `5f0c1d2e sent, 5f0c1d2e and none taken`. */
function cookiesText({ sent, taken, problem }: Cookies): string {
  const text = taken.every((one) => one === sent && one === 'none')
    ? 'none: requests are taken from whoever uses the address of a node; set --direct-return-secret-file'
    : `${sent} sent, ${taken.join(' and ')} taken`;
  return problem === undefined ? text : `${text}; ${problem}`;
}
