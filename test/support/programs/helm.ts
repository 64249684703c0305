// SPDX-License-Identifier: Apache-2.0
// The real helm, from its Go module, on the chart of deploy/helm.
import { fileURLToPath } from 'node:url';
import { type RunResult, run } from '../../../src/sys/exec.ts';
import { type Prepared, prepareGoProgram } from './go.ts';
import { kubernetesVersion } from './kubernetes.ts';

export const CHART = fileURLToPath(new URL('../../../deploy/helm/fairlead', import.meta.url));

export const prepareHelm = (): Promise<Prepared> =>
  prepareGoProgram({
    name: 'helm',
    files: ['go.mod', 'go.sum'],
    target: 'helm.sh/helm/v3/cmd/helm',
    what: 'helm (minutes)',
  });

/** The chart as `helm template` renders it for the release fairlead in kube-system. */
export const helmTemplate = (program: string, ...args: readonly string[]): Promise<RunResult> =>
  run(program, [
    ...['template', 'fairlead', CHART, '--namespace', 'kube-system'],
    ...['--kube-version', kubernetesVersion(), ...args],
  ]);
