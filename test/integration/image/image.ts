// SPDX-License-Identifier: Apache-2.0
// The image of the Dockerfile, built only from Debian's and npm's packages, as files and configuration; cached
// in the user's cache directory until its sources change.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { run, start } from '../../../src/sys/exec.ts';
import { prepareSeccomp } from '../../support/programs/seccomp.ts';
import { ensurePackages } from '../cluster/programs/packages.ts';

const BUILD_SCRIPT = fileURLToPath(new URL('../../../scripts/image/build', import.meta.url));
const PACKAGES = ['buildah', 'crun', 'debootstrap'];
const CANNOT = 5;

/** The fields of the OCI image specification that are used here. */
export interface ImageConfig {
  readonly Env: readonly string[];
  readonly Entrypoint: readonly string[];
  readonly Cmd: readonly string[];
  readonly WorkingDir: string;
  readonly Labels: Readonly<Record<string, string>>;
}

export interface Image {
  /** A folder with its files; shared, so do not change it. */
  readonly rootfs: string;
  readonly config: ImageConfig;
  /** As `docker save` writes it. */
  readonly archive: string;
}

/** What runs its containers as a container runtime would. */
export interface RunnableImage extends Image {
  /** Prints the seccomp profile RuntimeDefault. */
  readonly seccomp: string;
}

export type Readiness<T> =
  | { readonly isReady: true; readonly image: T }
  | { readonly isReady: false; readonly reason: string };

/**
 * May take minutes: test files await it at their top, where no time-out applies. A Dockerfile that does not
 * build throws: it is a fault, not a missing need.
 */
export async function prepareImage(architecture?: 'amd64' | 'arm64'): Promise<Readiness<Image>> {
  if (process.getuid?.() !== 0) return refuse('needs root');
  const reason = await ensurePackages(PACKAGES);
  if (reason !== undefined) return refuse(reason);
  const of = architecture === undefined ? [] : ['--arch', architecture];
  const known = await run(BUILD_SCRIPT, [...of, '--path']);
  const built = known.code === 0 ? { folder: known.stdout.trim() } : await build(of);
  if ('reason' in built) return refuse(built.reason);
  const { folder } = built;
  const { config } = JSON.parse(readFileSync(join(folder, 'config.json'), 'utf8')) as {
    config: ImageConfig;
  };
  const [rootfs, archive] = [join(folder, 'rootfs'), join(folder, 'image.tar')];
  return { isReady: true, image: { rootfs, config, archive } };
}

/** For this machine's processor. */
export async function prepareRunnable(): Promise<Readiness<RunnableImage>> {
  const built = await prepareImage();
  if (!built.isReady) return built;
  const seccomp = await prepareSeccomp();
  if (!seccomp.isReady) return refuse(seccomp.reason);
  return { isReady: true, image: { ...built.image, seccomp: seccomp.program } };
}

async function build(
  args: readonly string[],
): Promise<{ readonly folder: string } | { readonly reason: string }> {
  let folder = '';
  const said: string[] = [];
  const child = start(BUILD_SCRIPT, args, {
    onStdoutLine: (line) => {
      folder = line;
    },
    onStderrLine: (line) => {
      said.push(line);
      process.stderr.write(`${line}\n`);
    },
  });
  const code = await child.exited;
  if (code === 0) return { folder };
  if (code === CANNOT) return { reason: said.at(-1) ?? '' };
  throw new Error(`scripts/image/build: code ${code}:\n${said.slice(-20).join('\n')}`);
}

/** Prints why tests are skipped; vitest only counts them. */
function refuse(reason: string): { readonly isReady: false; readonly reason: string } {
  process.stderr.write(`\n=== image tests SKIPPED: ${reason}\n\n`);
  return { isReady: false, reason };
}
