// SPDX-License-Identifier: Apache-2.0
// The tables of packets of tc's tests once more, with the program at XDP before that at ingress.
import { describe } from 'vitest';
import { enterUplinks } from './uplinks.ts';

const FILES = [
  ...['translate', 'flows', 'connections', 'ports', 'direct'],
  ...['answers', 'fragments', 'icmp', 'own-ports', 'ping'],
];

/** Call it at the top of a file, before packet-drive.ts is loaded. */
export function playAgain(what: 'left' | 'sent'): void {
  process.env['FAIRLEAD_XDP_FIRST'] = what;
  enterUplinks('one way');
  for (const file of FILES) {
    describe(file, async () => {
      await import(`../${file}.test.ts`);
    });
  }
}
