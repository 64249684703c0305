// SPDX-License-Identifier: Apache-2.0
// The seccomp profile RuntimeDefault, as containerd makes it for the capabilities of a container.
import { run } from '../../../src/sys/exec.ts';
import { type Prepared, prepareGoProgram } from './go.ts';

export const prepareSeccomp = (): Promise<Prepared> =>
  prepareGoProgram({
    name: 'seccomp',
    files: ['main.go', 'go.mod', 'go.sum'],
    target: '.',
    what: 'containerd’s seccomp profile',
  });

/** `linux.seccomp` of the OCI runtime specification for the container of this config.json. */
export async function runtimeDefault(program: string, config: object): Promise<object> {
  const { code, stdout, stderr } = await run(program, [], { stdin: JSON.stringify(config) });
  if (code !== 0) throw new Error(`seccomp: code ${code}: ${stderr}`);
  return JSON.parse(stdout);
}
