// SPDX-License-Identifier: Apache-2.0
// The agent on devices that are modules of Debian's kernels: bonds, whose ports come and go, a VLAN on a bond, ipip, gre and geneve; by clsact
// filters before Linux 6.6. On Linux 5.10 packets are served by rules.
import { declareChecks, runChecks } from './devices/run.ts';
import { type Kernel, onEach } from './guest.ts';

/** What the kernel has. */
const WORDS: Readonly<Record<Kernel, readonly string[]>> = {
  '5.10': ['rules'],
  '6.1': ['sweep'],
  '6.12': ['sweep', 'tcx'],
};

const checked = await onEach(async (guest) => ({
  guest,
  output: await runChecks(guest, WORDS[guest.kernel]),
}));
for (const [, { guest, output }] of checked) declareChecks(guest, output);
