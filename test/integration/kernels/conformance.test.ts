// SPDX-License-Identifier: Apache-2.0
// Sockets and packets on Debian's kernels, by test files of other stages: what the programs select in every story and cell of the
// table; packets through the programs by test runs; stories and cases with real sockets in a cluster of namespaces, with the agent.
// What takes hours on an emulated processor is left out. FAIRLEAD_KERNEL_CASES names other stories and cases.
// A kernel that lacks something skips its tests with the reason, or falls back as docs/probe.md says.
import { type Guest, hasPackets, onEach } from './guest.ts';
import { declareTests, type GuestReport, runVitest } from './vitest.ts';

/** What kernels do differently, or a program that the verifier has changed could do wrong; all with the settings that most stories have. */
const STORIES = [1, 3, 7, 10, 13, 57, 64, 70, 73, 84, 94, 102, 151];
const CASES = [12, 28, 129, 132, 'fragments', 'invalid'];

const SUITES = [
  {
    name: 'selection and packets',
    files: [
      'conformance',
      'migration/carry-storage',
      ...['translate', 'connections', 'icmp', 'fragments', 'answers'].map(
        (name) => `packet/${name}`,
      ),
    ].map((name) => `test/integration/bpf/${name}.test.ts`),
    // An emulated processor needs half a minute for what they import.
    isolate: false,
  },
  {
    name: 'stories and cases',
    files: ['test/integration/guest/played.test.ts'],
    environment: {
      FAIRLEAD_CASES: process.env['FAIRLEAD_KERNEL_CASES'] ?? [...STORIES, ...CASES].join(),
      FAIRLEAD_CONNECTIONS: '24',
    },
  },
];

const filesOn = ({ kernel }: Guest, files: readonly string[]): readonly string[] =>
  files.filter((file) => hasPackets(kernel) || !file.includes('/packet/'));

const runs = await onEach(async (guest) => {
  const reports = new Map<string, GuestReport>();
  for (const suite of SUITES) {
    const files = filesOn(guest, suite.files);
    reports.set(suite.name, await runVitest(guest, { ...suite, files }));
  }
  return { guest, reports };
});
for (const [, { guest, reports }] of runs) {
  for (const [suite, report] of reports) declareTests(guest, suite, report);
}
