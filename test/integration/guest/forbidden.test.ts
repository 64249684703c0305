// SPDX-License-Identifier: Apache-2.0
// A node on which eBPF is forbidden, or that has no cgroup v2 hierarchy: `--engine auto` ends in nftables, says why, and
// serves packets and sockets as everywhere. FAIRLEAD_CASES=1,13 plays only these stories and cases.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { ProbeReport } from '../../../src/probe/report.ts';
import { findCgroup2 } from '../../../src/sys/cgroup.ts';
import { type RunResult, run } from '../../../src/sys/exec.ts';
import { compiledPath, insideSandbox } from '../../../tools/lab/sandbox.ts';
import { CLUSTER, fixture } from '../../conformance/story.ts';
import { allCases } from '../../support/fixture/cases/all.ts';
import { fairleadPaths, fairleadRules } from '../../support/fixture/proxies/fairlead.ts';
import { type Stage, startStage } from '../../support/fixture/stage.ts';
import { playable } from '../../support/fixture/stories/story-table.ts';
import { testPlayed } from '../../support/fixture/tests.ts';
import { forbidBpf } from '../../support/seccomp/forbid-bpf.ts';

interface Ban {
  readonly name: string;
  /** In the name of the table of results. */
  readonly short: string;
  /** What stands before a command line that it holds for. */
  readonly argv: readonly string[];
  readonly feature: string;
  /** In the probe. */
  readonly reason: RegExp;
  /** In the status, with what would change it. */
  readonly said: RegExp;
}

const HIDDEN = [
  'unshare',
  '--mount',
  'sh',
  '-c',
  `umount -l "${findCgroup2()}" && exec "$@"`,
  'sh',
];
const BANS: readonly Ban[] = [
  {
    name: 'a seccomp profile that denies bpf(2)',
    short: 'seccomp',
    argv: forbidBpf('EPERM'),
    feature: 'bpf()',
    reason: /a seccomp filter of this process answers bpf\(2\) with EPERM/,
    said: /a seccomp filter of this process answers bpf\(2\) with EPERM: allow bpf\(2\)/,
  },
  {
    name: 'a container without CAP_BPF and CAP_SYS_ADMIN',
    short: 'capabilities',
    argv: ['setpriv', '--bounding-set', '-sys_admin,-bpf,-perfmon'],
    feature: 'bpf()',
    reason: /this process has neither CAP_BPF nor CAP_SYS_ADMIN/,
    said: /this process lacks CAP_BPF and CAP_PERFMON: run it as root, or with/,
  },
  {
    name: 'a mount namespace without cgroup v2',
    short: 'cgroup2',
    argv: HIDDEN,
    feature: 'cgroup v2',
    reason: /no cgroup v2 hierarchy is mounted/,
    said: /no cgroup v2 hierarchy is mounted.*mount -t cgroup2/,
  },
];
const MODE = 'fairlead-nftables';
const PROBE_MS = 600_000;

describe.each(BANS)('$name', (ban) => {
  let stage: Stage;

  beforeAll(async () => {
    const start = fairleadRules(MODE, { engine: 'auto', within: ban.argv });
    stage = await startStage({ network: 'routed', mode: MODE, start });
    await stage.reset(CLUSTER.changes, fixture.settings);
  }, PROBE_MS);
  afterAll(() => stage?.remove());

  /** On n1, under the same ban. */
  const fairlead = (words: readonly string[]): Promise<RunResult> => {
    const argv = [...ban.argv, process.execPath, compiledPath('main.js'), ...words];
    const [program = 'sh', ...args] = insideSandbox(stage.cluster.tools('n1'), argv);
    return run(program, args, { timeoutMs: PROBE_MS });
  };

  test('status says that nftables serves, and why', async () => {
    const { runDir } = fairleadPaths(stage.cluster, 'n1');
    const { code, stdout } = await fairlead(['status', '--run-dir', runDir, '--timeout', '60s']);
    expect(code).toBe(0);
    expect(stdout).toMatch(/^Dataplane: +nftables/m);
    const [, why = ''] = /^Fallback: +sockets and packets by nftables: (.*)$/m.exec(stdout) ?? [];
    expect(why).toMatch(ban.said);
  });

  test(
    'the probe names what is missing, its consequence and what would change it',
    async () => {
      const { code, stdout } = await fairlead(['probe', '-o', 'json', '--timeout', '240']);
      const { items, engine }: ProbeReport = JSON.parse(stdout);
      const item = items.find(({ feature }) => feature === ban.feature);
      expect(item).toMatchObject({ answer: 'no', reason: expect.stringMatching(ban.reason) });
      expect(item?.consequence).toMatch(/Services are served by rules/);
      expect(item?.remedy).not.toBe('');
      expect(engine).toMatchObject({ ok: true, sockets: 'nftables', packets: 'nftables' });
      expect(code).toBe(3);
    },
    PROBE_MS,
  );

  testPlayed(() => stage, {
    table: `forbidden-${ban.short}`,
    stories: playable(),
    cases: allCases(),
  });
});
