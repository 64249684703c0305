// SPDX-License-Identifier: Apache-2.0
// What becomes of a stage that this machine cannot run: it is said, with the reason, and each of its files is counted.
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';

const folder = mkdtempSync(join(tmpdir(), 'fairlead-stages-'));
afterAll(() => rmSync(folder, { recursive: true }));

/** The stage as scripts/test runs it; what it would count, and what would run, are lines. */
function stage(name: string, given: string, environment: NodeJS.ProcessEnv = {}): string {
  const script = `
    set -euo pipefail
    source scripts/lib.sh
    source scripts/stages/stages.sh
    add() { echo "counted: $*"; }
    run() { echo "ran: $1"; }
    in_lanes() { echo "lanes: $*"; }
    need_rules() { :; }
    ${given}
    stage_${name}`;
  const { stdout, stderr } = spawnSync('bash', ['-c', script, 'scripts/test'], {
    encoding: 'utf8',
    env: { ...process.env, FAIRLEAD_SKIP_VM: '', FAIRLEAD_SKIP_CLUSTER: '', ...environment },
  });
  return `${stdout}${stderr}`.trimEnd();
}

function filesOf(name: string): number {
  const files = readdirSync(`test/integration/${name}`, { recursive: true, encoding: 'utf8' });
  return files.filter((file) => file.endsWith('.test.ts')).length;
}

const skipped = (name: string, reason: string): string =>
  `=== ${name}: SKIPPED (${filesOf(name)} files): ${reason}\n` +
  `counted: ${name} 0 0 ${filesOf(name)} skipped: ${reason}`;

/** scripts/kernels/guest --prepare, where packages cannot be installed. */
const prepare = (code: number): string =>
  `scripts/kernels/guest() { echo 'error: needs qemu-system-x86_64' >&2; return ${code}; }`;

test.each([
  ['kernels', prepare(5), {}, 'needs qemu-system-x86_64'],
  ['kernels', prepare(0), { FAIRLEAD_SKIP_VM: '1' }, 'FAIRLEAD_SKIP_VM is set'],
  ['kernels', "need_rules() { echo 'needs nftables'; }", {}, 'needs nftables'],
  ['cluster', '', { FAIRLEAD_SKIP_CLUSTER: '1' }, 'FAIRLEAD_SKIP_CLUSTER is set'],
  ['bpf', "need_kernel() { echo 'needs root'; }", {}, 'needs root'],
  ['netns', "need_rules() { echo 'needs network namespaces'; }", {}, 'needs network namespaces'],
] as const)('%s cannot run: %s %o', (name, given, environment, reason) => {
  expect(stage(name, given, environment)).toBe(skipped(name, reason));
});

test('what it needs is made: it runs', () => {
  expect(stage('vm', 'scripts/kernels/test-vm() { :; }')).toBe('ran: vm');
});

test.each([
  ['unit', ''],
  ['image', '/certificates.pem'],
])('the Nodes of stage %s read these certificates: %s', (name, read) => {
  writeFileSync(join(folder, 'vitest'), '#!/bin/sh\necho "read: $NODE_EXTRA_CA_CERTS"\n', {
    mode: 0o755,
  });
  const given = `
    source scripts/stages/stages.sh
    on_cluster() { run "$1" "$1"; }
    reports=${folder} results=${folder} PATH=${folder}:$PATH`;
  const shown = stage(name, given, { NODE_EXTRA_CA_CERTS: '/certificates.pem' });
  expect(shown.split('\n')).toContain(`read: ${read}`);
});

test('each kernel has a lane; FAIRLEAD_GUESTS=1 boots one after another', () => {
  expect(stage('kernels', prepare(0))).toBe('lanes: on6.12 on5.10 on6.1');
  const one = { FAIRLEAD_GUESTS: '1' };
  expect(stage('kernels', prepare(0), one)).toBe('lanes: on5.10 on6.1 on6.12');
});

test('every kernel of scripts/kernels/kernels.sh has a stage, and a folder is of one of them', () => {
  const script = `source scripts/lib.sh; source scripts/kernels/kernels.sh; echo "\${kernels[@]}"`;
  const kernels = execFileSync('bash', ['-c', script, 'scripts/test'], { encoding: 'utf8' });
  for (const kernel of kernels.trim().split(' ')) {
    expect(stage(`on${kernel}`, '')).toBe(`ran: on${kernel}`);
  }
  const folders = readdirSync('test/integration/kernels/lab', { withFileTypes: true });
  const ofOne = folders.filter((entry) => entry.isDirectory()).map(({ name }) => name);
  expect(kernels.trim().split(' ')).toEqual(expect.arrayContaining(ofOne));
});

test('what should work and does not is a failure, not a skip', () => {
  expect(stage('kernels', prepare(1))).toBe(
    'error: needs qemu-system-x86_64\ncounted: kernels 0 1 0 does not build',
  );
});

test('scripts/kernels/guest itself names what it needs, with the code that skips', () => {
  // No QEMU, and nothing that could install it.
  for (const tool of ['bash', 'dirname', 'uname']) {
    const { stdout } = spawnSync('which', [tool], { encoding: 'utf8' });
    symlinkSync(stdout.trim(), join(folder, tool));
  }
  const { status, stderr } = spawnSync('bash', ['scripts/kernels/guest', '--prepare'], {
    encoding: 'utf8',
    env: { ...process.env, PATH: folder },
  });
  expect(status).toBe(5);
  expect(stderr).toMatch(/^error: needs .*$/m);
});
