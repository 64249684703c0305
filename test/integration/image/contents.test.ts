// SPDX-License-Identifier: Apache-2.0
// The files of the image: small, complete for a scanner, and for both processors. What is of another processor is
// looked at with file(1) and run under QEMU's user emulation.
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { type RunResult, run } from '../../../src/sys/exec.ts';
import { ensurePackages } from '../cluster/programs/packages.ts';
import { prepareImage } from './image.ts';

/** As the archive has them, without compression. */
const MOST_MIB = 124;
const MIB = 1024 * 1024;
const missing = await ensurePackages(['file', 'qemu-user-static']);
const EXAMPLES = fileURLToPath(new URL('../../../examples/demo', import.meta.url));
const images = { amd64: await prepareImage('amd64'), arm64: await prepareImage('arm64') };
const PROCESSORS = [
  ['amd64', { inFile: 'x86-64', emulator: 'qemu-x86_64-static', node: 'x64' }],
  ['arm64', { inFile: 'ARM aarch64', emulator: 'qemu-aarch64-static', node: 'arm64' }],
] as const;
const PACKAGES = [
  'libc6',
  'libbpf1',
  'libelf1',
  'libstdc++6',
  'iptables',
  'nftables',
  'busybox',
  'tini',
];
/** The addon, loaded past the permissions that it asks for; and its calls into libbpf. */
const LOAD = `process.dlopen(module, process.argv[1]);
  console.log(process.arch, module.exports.libbpfVersion());`;

describe.each(PROCESSORS)('the image for %s', (architecture, { inFile, emulator, node }) => {
  const readiness = images[architecture];
  const image = readiness.isReady ? readiness.image : undefined;
  const path = (...parts: readonly string[]): string => join(image!.rootfs, ...parts);
  const emulate = (program: string, ...args: readonly string[]): Promise<RunResult> =>
    run(emulator, ['-L', image!.rootfs, path(program), ...args], { timeoutMs: 120_000 });
  const fairlead = (...args: readonly string[]): Promise<RunResult> =>
    emulate('usr/local/bin/node', path('opt/fairlead/dist/main.js'), ...args);

  describe.skipIf(image === undefined)('its files', () => {
    test(`are at most ${MOST_MIB} MiB`, () => {
      const sizeMib = Math.round(statSync(image!.archive).size / MIB);
      process.stderr.write(`image: ${sizeMib} MiB for ${architecture}\n`);
      expect(sizeMib).toBeLessThanOrEqual(MOST_MIB);
    });

    test.skipIf(missing !== undefined)('are all for this processor', async () => {
      const found = await run('find', [image!.rootfs, '-type', 'f']);
      const files = found.stdout.trimEnd().split('\n');
      const { stdout } = await run('file', ['--no-pad', '--brief', ...files]);
      const programs = stdout.split('\n').filter((kind) => kind.startsWith('ELF'));
      const others = programs.filter((kind) => !kind.includes(inFile));
      // The same objects everywhere, for the machine that the kernel is.
      expect(others.filter((kind) => !kind.includes('eBPF'))).toEqual([]);
      expect([others.length > 1, programs.length > 100]).toEqual([true, true]);
    });

    test('its bill of materials names what is in it', () => {
      const { components } = JSON.parse(readFileSync(path('opt/fairlead/sbom.cdx.json'), 'utf8'));
      const purls = (components as readonly { readonly purl: string }[]).map(({ purl }) => purl);
      for (const name of PACKAGES) {
        const start = `pkg:deb/debian/${encodeURIComponent(name)}@`;
        const found = purls.filter((purl) => purl.startsWith(start));
        expect([name, found]).toEqual([name, [expect.stringContaining(`?arch=${architecture}&`)]]);
      }
      expect(purls).toContainEqual(expect.stringMatching(/^pkg:generic\/node@24\./));
      expect(purls).toContainEqual(expect.stringMatching(/^pkg:npm\/undici@/));
      expect(purls.filter((purl) => purl.startsWith('pkg:npm/vitest'))).toEqual([]);
      const listed = readdirSync(path('var/lib/dpkg/status.d'));
      expect(purls.filter((purl) => purl.startsWith('pkg:deb/'))).toHaveLength(listed.length);
      const isLicensed = (name: string): boolean =>
        isFile(path('usr/share/doc', name, 'copyright'));
      expect(listed.filter((name) => !isLicensed(name))).toEqual([]);
    });

    test('it has the labels of the OCI image specification', () => {
      const { version } = JSON.parse(readFileSync(path('opt/fairlead/package.json'), 'utf8'));
      expect(image!.config.Labels).toMatchObject({
        'org.opencontainers.image.title': 'fairlead',
        'org.opencontainers.image.version': version,
        'org.opencontainers.image.licenses': 'Apache-2.0 AND (GPL-2.0-only OR BSD-2-Clause)',
      });
    });
  });

  describe.skipIf(image === undefined || missing !== undefined)('under QEMU', () => {
    test('the program runs', async () => {
      const { version } = JSON.parse(readFileSync(path('opt/fairlead/package.json'), 'utf8'));
      expect(await fairlead('--version')).toMatchObject({ code: 0, stdout: `${version}\n` });
      const validated = await fairlead('validate', EXAMPLES);
      expect([validated.code, validated.stderr]).toEqual([0, 'valid\n']);
    });

    test('the addon loads, and calls libbpf', async () => {
      const addon = path('opt/fairlead/build/native/fairlead.node');
      const loaded = await emulate('usr/local/bin/node', '-e', LOAD, addon);
      expect([loaded.stdout, loaded.stderr]).toEqual([
        expect.stringMatching(new RegExp(`^${node} 1\\.\\d+\n$`)),
        '',
      ]);
    });

    test.each([
      ['legacy', 0, /^iptables v1\..* \(legacy\)\n$/],
      // It asks the kernel first, by a protocol that QEMU does not emulate.
      ['nft', 1, /^iptables: Failed to initialize nft: Protocol not supported\n$/],
    ])('iptables-%s runs', async (name, code, text) => {
      const ran = await emulate(`usr/sbin/xtables-${name}-multi`, 'iptables', '--version');
      expect([ran.code, ran.stdout + ran.stderr]).toEqual([code, expect.stringMatching(text)]);
    });

    test('nft runs', async () => {
      // As iptables-nft: with all its libraries it comes as far as the kernel.
      const ran = await emulate('usr/sbin/nft', '--version');
      const text = /Unable to initialize Netlink socket: Protocol not supported/;
      expect([ran.code, ran.stdout + ran.stderr]).toEqual([3, expect.stringMatching(text)]);
    });
  });
});

const isFile = (path: string): boolean =>
  statSync(path, { throwIfNoEntry: false })?.isFile() === true;
