// SPDX-License-Identifier: Apache-2.0
// The processor that a program or library is built for, by its ELF header. Pure.

/** e_machine of elf(5) -> Node's name. */
const NAMES: Readonly<Record<number, string>> = { 62: 'x64', 183: 'arm64' };
const MAGIC = [0x7f, 0x45, 0x4c, 0x46] as const;
const MACHINE_AT = 18;

/** How many bytes of a file processorOf needs. */
export const ELF_BYTES = 20;

/** @param header its first bytes; undefined if it is no ELF file, or of a processor that there are no builds for */
export function processorOf(header: Uint8Array): string | undefined {
  if (MAGIC.some((byte, index) => header[index] !== byte)) return undefined;
  return NAMES[(header[MACHINE_AT] ?? 0) | ((header[MACHINE_AT + 1] ?? 0) << 8)];
}
