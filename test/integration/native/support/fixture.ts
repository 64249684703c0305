// SPDX-License-Identifier: Apache-2.0
// Builds the test programs once and opens them.
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, renameSync, statSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { type BpfObject, openObject } from '../../../../src/sys/native.ts';

const root = fileURLToPath(new URL('../../../../', import.meta.url));

function isOlder(file: string, source: string): boolean {
  const modified = statSync(file, { throwIfNoEntry: false })?.mtimeMs ?? 0;
  return modified < statSync(source).mtimeMs;
}

/** @param variant one of several objects from the same source: its name and its macros */
export function build(
  name: string,
  variant: { readonly name: string; readonly macros: Readonly<Record<string, string>> } = {
    name: '',
    macros: {},
  },
): Buffer {
  const source = `${root}test/integration/native/fixture/${name}.bpf.c`;
  const target = `${root}build/test/${name}${variant.name}.bpf.o`;
  if (isOlder(target, source)) {
    mkdirSync(`${root}build/test`, { recursive: true });
    const fresh = `${target}.${process.pid}`;
    const macros = Object.entries(variant.macros).map(([macro, text]) => `-D${macro}=${text}`);
    compile(source, fresh, macros);
    renameSync(fresh, target);
  }
  return readFileSync(target);
}

export function compile(source: string, target: string, flags: readonly string[] = []): void {
  const includes = '-I/usr/include/x86_64-linux-gnu -I/usr/include/aarch64-linux-gnu';
  const usual = `-g -O2 -target bpf -mcpu=v3 -Wall -Werror ${includes}`.split(' ');
  const files = ['-c', source, '-o', target];
  execFileSync('clang-19', [...usual, ...flags, ...files], { env: plainEnv() });
}

/** The environment for other programs, without the sanitizer's variables, which are only for the addon. */
export function plainEnv(): NodeJS.ProcessEnv {
  const env = { ...process.env };
  delete env['LD_PRELOAD'];
  return env;
}

export const fixtureBytes: Uint8Array = build('fixture');
export const refusedBytes: Uint8Array = build('refused');

/** The fixture, loaded; `configure` runs before. */
export function loadFixture(configure: (object: BpfObject) => void = () => {}): BpfObject {
  const object = openObject(fixtureBytes, { name: 'fixture' });
  object.setAutoload('either_connect', false);
  configure(object);
  object.load();
  return object;
}

/** The reason if the kernel tests cannot run here, otherwise undefined. */
export const missing: string | undefined =
  process.getuid?.() === 0 ? undefined : 'needs root: BPF programs, mounts and namespaces';

if (missing !== undefined) process.stderr.write(`SKIPPED: ${missing}\n`);

export const u32 = (...values: number[]): Uint8Array =>
  new Uint8Array(new Uint32Array(values).buffer);
export const u64 = (...values: bigint[]): Uint8Array =>
  new Uint8Array(new BigUint64Array(values).buffer);

export function readU32(bytes: Uint8Array, index = 0): number {
  return new DataView(bytes.buffer, bytes.byteOffset).getUint32(index * 4, true);
}
export function readU64(bytes: Uint8Array, index = 0): bigint {
  return new DataView(bytes.buffer, bytes.byteOffset).getBigUint64(index * 8, true);
}

/** An Ethernet frame of zeros with the IPv4 type, the minimum for test runs of packet programs. */
export function frame(): Uint8Array {
  const bytes = new Uint8Array(64);
  bytes.set([0x08, 0x00], 12);
  return bytes;
}
