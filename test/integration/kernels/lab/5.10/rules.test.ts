// SPDX-License-Identifier: Apache-2.0
// Where eBPF is forbidden, or there is no cgroup v2, on Linux 5.10: --engine auto serves by nftables and says why, and clients
// see what they see of --engine nftables, and of --engine iptables but for its limits (compare.sh). test/integration/guest/forbidden.test.ts plays stories and cases so.
import { afterAll, describe, expect, test } from 'vitest';
import { bootGuest, guestOf } from '../../guest.ts';
import { kinds, type LabRun, runIn } from '../lab.ts';

const SECCOMP = 'a seccomp filter of this process answers bpf(2) with EPERM';
const BANS = [
  {
    ban: 'seccomp',
    boot: [],
    fallback: `${SECCOMP}: allow bpf(2) in the seccomp profile`,
    probe:
      /^probe: bpf\(\) +no .* a seccomp filter of this process .*served by rules +allow bpf\(2\) in the seccomp/m,
  },
  {
    ban: 'capabilities',
    boot: [],
    fallback: 'this process lacks CAP_BPF and CAP_PERFMON: run it as root, or with CAP_BPF',
    probe:
      /^probe: bpf\(\) +no .* this process has neither CAP_BPF nor CAP_SYS_ADMIN .*served by rules +allow bpf/m,
  },
  {
    ban: 'auto',
    boot: ['nocgroup2'],
    fallback: 'no cgroup v2 hierarchy is mounted',
    probe:
      /^probe: cgroup v2 +no .*no cgroup v2 hierarchy is mounted.*served by rules +mount a cgroup v2 hierarchy/m,
  },
] as const;

/** Answers of which chance chooses one endpoint of two. */
const choice = (run: LabRun, what: string): string => {
  const text = kinds(run.answer(what));
  const isChosen = /affinity|another address|127\.0\.0\.1|as the source/.test(what);
  return isChosen ? text.replace(/\S+:8080>\S+.*/, 'an endpoint') : text;
};
const questionsOf = ({ output }: LabRun): readonly string[] =>
  output
    .split('\n')
    .flatMap((line) => /^((?:pod|node|outside|endpoint), .*?): /.exec(line)?.[1] ?? []);

const shared = await guestOf('5.10');
const plain = await runIn(shared, ['compare.sh', 'nftables', 'FOLDER']);
const iptables = await runIn(shared, ['compare.sh', 'iptables', 'FOLDER']);
const questions = questionsOf(plain);

test('the engine nftables answers, as iptables does', () => {
  for (const { code, output } of [plain, iptables]) expect(code, output).toBe(0);
  expect(questions.length).toBeGreaterThan(45);
  const differing = questions.filter((what) => choice(plain, what) !== choice(iptables, what));
  // The limit LOOPBACK.
  expect(differing).toEqual(['node, NodePort at 127.0.0.1']);
});

for (const { ban, boot, fallback, probe } of BANS) {
  const guest = boot.length === 0 ? shared : await bootGuest('5.10', boot);
  const run = await runIn(guest, ['compare.sh', ban, 'FOLDER']);
  if (guest !== shared) afterAll(() => guest.stop());
  describe(`${run.guest.name}, ${ban}`, () => {
    test('all was asked', () => expect(run.code, run.output).toBe(0));

    test.each(questions)('%s: as with --engine nftables', (what) => {
      expect(choice(run, what)).toBe(choice(plain, what));
    });

    test('status says that nftables serves, why, and what would change it', () => {
      expect(run.output).toMatch(/^status: Dataplane: +nftables/m);
      expect(run.output).toContain(`sockets and packets by nftables: ${fallback}`);
    });

    test('the probe names what is missing, the consequence, and what would change it', () => {
      expect(run.output).toMatch(probe);
    });
  });
}
