// SPDX-License-Identifier: Apache-2.0
// SCTP with real sockets on Linux 6.12, whether the host's kernel has it or not: Services by each engine, from a pod, from
// outside and from the node (sctp.sh).
import { describe, expect, test } from 'vitest';
import { runLab } from '../lab.ts';

const [A, B] = ['10.1.1.5', '10.1.2.5'];
const NODE = '192.0.3.1';
/** Both endpoints, in any order. */
const BOTH = /^10\.1\.([12])\.5:\d+>\S+=\d+ 10\.1\.(?!\1)[12]\.5:\d+>\S+=\d+$/;
const REFUSED = 'ECONNREFUSED=3';
/** To where the node's routes lead. */
const LEFT_ALONE = /^(?:TIMEOUT|EHOSTUNREACH)=3$/;

/** Masqueraded with the address of the device to the endpoint. */
const OTHER_PORT = /^(?:(?:10\.1\.1\.5:9999>10\.1\.1\.1|10\.1\.2\.5:9999>192\.0\.3\.1)=\d ?)+$/;

type Expected = string | RegExp;
/** What is asked, and what an engine answers: SCTP to other ports and of the node itself are what eBPF does not serve. */
const QUESTIONS: readonly (readonly [what: string, bpf: Expected, iptables: Expected])[] = [
  ['pod, ClusterIP', BOTH, BOTH],
  ['outside, NodePort', BOTH, BOTH],
  ['outside, NodePort, endpoint elsewhere', `${B}:30104>${NODE}=3`, `${B}:30104>${NODE}=3`],
  ['pod, other port', REFUSED, /^10\.1\.[12]\.5:9999>10\.1\.1\.9=/],
  ['outside, other port', REFUSED, OTHER_PORT],
  ['pod, no endpoints', REFUSED, REFUSED],
  ['outside, no endpoints', REFUSED, REFUSED],
  ['node, ClusterIP', LEFT_ALONE, /^10\.1\.[12]\.5:30100>/],
  ['kept, before', `${A}:30103>10.1.1.9=1`, `${A}:30103>10.1.1.9=1`],
  ['tracked to the endpoint, before', '0', '1'],
  ['new, after', `${B}:30103>10.1.1.9=10`, `${B}:30103>10.1.1.9=10`],
  ['tracked to the endpoint, after', '0', '0'],
  // Its data comes to the other endpoint, which aborts it; without an entry it matches no rule.
  ['kept, after', 'ECONNRESET=1', /^(?:ECONNRESET|TIMEOUT)=1$/],
];

for (const [column, engine] of ['bpf', 'iptables'].entries()) {
  const { guest, code, output, answer } = await runLab('6.12', ['sctp.sh', engine, 'FOLDER']);

  describe(`${guest.name}, --engine ${engine}`, () => {
    test('all questions were asked', () => expect(code, output).toBe(0));

    test.each(QUESTIONS)('%s', (what, ...expected) => {
      const wanted = expected[column]!;
      const saw = answer(what) ?? '';
      if (typeof wanted === 'string') expect(saw).toBe(wanted);
      else expect(saw).toMatch(wanted);
    });

    test('status says what is not served', () => {
      const limits = output.split('\n').filter((line) => line.startsWith('status: Limit'));
      const said = [
        /SCTP from processes of this node: default\/s100/,
        /with another port: default\/s101/,
      ];
      if (engine === 'iptables') expect(limits).toEqual([]);
      else for (const limit of said) expect(limits.join('\n')).toMatch(limit);
    });
  });
}
