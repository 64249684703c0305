// SPDX-License-Identifier: Apache-2.0
// Finds the control plane binaries: in $KUBEBUILDER_ASSETS, otherwise in the output of scripts/cluster/build,
// which is run if needed. If they cannot be had, tests are skipped with the reason.
import { accessSync, constants } from 'node:fs';
import { join } from 'node:path';
import { findCgroup2 } from '../../../../src/sys/cgroup.ts';
import { run, start } from '../../../../src/sys/exec.ts';
import { packageRoot } from '../../../../src/sys/package.ts';

const PROGRAMS = ['etcd', 'kube-apiserver', 'kube-controller-manager', 'kube-proxy', 'kubectl'];
const BUILD_SCRIPT = join(packageRoot(), 'scripts', 'cluster', 'build');

/** Paths of the programs. */
export interface Binaries {
  readonly etcd: string;
  readonly apiServer: string;
  readonly controllerManager: string;
  readonly kubeProxy: string;
  readonly kubectl: string;
}

export type Readiness =
  | { readonly isReady: true; readonly binaries: Binaries }
  | { readonly isReady: false; readonly reason: string };

/**
 * Whether this machine can run a control plane. May build for minutes, so test files await it at their
 * top, where no time-out applies. A failing build throws: it is a fault, not a missing need.
 */
export async function prepareCluster(): Promise<Readiness> {
  const reason = missingNeed() ?? (await missingTool());
  if (reason !== undefined) return refuse(reason);
  const assets = process.env['KUBEBUILDER_ASSETS'];
  const isComplete =
    assets !== undefined && PROGRAMS.every((name) => isProgram(join(assets, name)));
  if (isComplete) return { isReady: true, binaries: binariesIn(assets, assets) };
  const folder = (await run(BUILD_SCRIPT, ['--path'])).stdout.trim();
  if (!isProgram(join(folder, 'etcd')) && (await run('go', ['version'])).code !== 0) {
    return refuse('needs Go 1.21 or newer, once, to build etcd and the API server');
  }
  await build();
  return { isReady: true, binaries: binariesIn(assets ?? folder, folder) };
}

function missingNeed(): string | undefined {
  if (process.env['FAIRLEAD_SKIP_CLUSTER'] === '1') return 'FAIRLEAD_SKIP_CLUSTER=1';
  if (process.getuid?.() !== 0) return 'needs root';
  if (findCgroup2() === undefined) return 'needs a mounted cgroup v2 hierarchy';
  return undefined;
}

async function missingTool(): Promise<string | undefined> {
  const tools = { ip: ['-V'], nsenter: ['-V'], setpriv: ['-V'], openssl: ['version'] };
  for (const [program, args] of Object.entries(tools)) {
    if ((await run(program, args)).code !== 0) return `needs ${program}`;
  }
  return undefined;
}

/** Prints why tests are skipped; vitest only counts them. */
function refuse(reason: string): Readiness {
  process.stderr.write(`\n=== cluster tests SKIPPED: ${reason}\n\n`);
  return { isReady: false, reason };
}

async function build(): Promise<void> {
  const said: string[] = [];
  const child = start(BUILD_SCRIPT, [], {
    onStderrLine: (line) => {
      said.push(line);
      process.stderr.write(`${line}\n`);
    },
  });
  const code = await child.exited;
  if (code !== 0)
    throw new Error(`scripts/cluster/build: code ${code}: ${said.slice(-5).join('; ')}`);
}

/** Other builds often lack a controller manager or kube-proxy; ours fill in for them. */
function binariesIn(preferred: string, fallback: string): Binaries {
  const path = (name: string): string =>
    isProgram(join(preferred, name)) ? join(preferred, name) : join(fallback, name);
  return {
    etcd: path('etcd'),
    apiServer: path('kube-apiserver'),
    controllerManager: path('kube-controller-manager'),
    kubeProxy: path('kube-proxy'),
    kubectl: path('kubectl'),
  };
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
