// SPDX-License-Identifier: Apache-2.0
// Names of BPF programs where the kernel tells none, which takes CAP_SYS_ADMIN: those of this instance are known by their pins.
import { hasSysAdmin } from '../../sys/process/capabilities.ts';
import type { HookPrograms } from '../facts.ts';

/** @param own asked only if a name is missing */
export function withNames(
  hooks: readonly HookPrograms[],
  own: () => ReadonlyMap<number, string>,
): readonly HookPrograms[] {
  const hasAll = hooks.every(({ programs }) => programs.every(({ name }) => name !== ''));
  if (hasAll) return hooks;
  const pinned = own();
  const nameless = hasSysAdmin() ? '' : undefined;
  return hooks.map((hook) => ({
    ...hook,
    programs: hook.programs.map((program) =>
      program.name === '' ? { ...program, name: pinned.get(program.id) ?? nameless } : program,
    ),
  }));
}
