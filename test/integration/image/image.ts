// SPDX-License-Identifier: Apache-2.0
// The image of the Dockerfile, built only from Debian's and npm's packages, as files and configuration; cached
// in the user's cache directory until its sources change.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { run, start } from '../../../src/sys/exec.ts';
import { ensurePackages } from '../cluster/programs/packages.ts';

const BUILD_SCRIPT = fileURLToPath(new URL('../../../scripts/image-build', import.meta.url));
const PACKAGES = ['buildah', 'crun', 'debootstrap'];
const CANNOT = 5;

/** The fields of the OCI image specification that are used here. */
export interface ImageConfig {
  readonly Env: readonly string[];
  readonly Entrypoint: readonly string[];
  readonly Cmd: readonly string[];
  readonly WorkingDir: string;
}

export interface Image {
  /** A folder with its files; shared, so do not change it. */
  readonly rootfs: string;
  readonly config: ImageConfig;
}

export type ImageReadiness =
  | { readonly isReady: true; readonly image: Image }
  | { readonly isReady: false; readonly reason: string };

/**
 * May take minutes: test files await it at their top, where no time-out applies. A Dockerfile that does not
 * build throws: it is a fault, not a missing need.
 */
export async function prepareImage(): Promise<ImageReadiness> {
  if (process.getuid?.() !== 0) return refuse('needs root');
  const reason = await ensurePackages(PACKAGES);
  if (reason !== undefined) return refuse(reason);
  const known = await run(BUILD_SCRIPT, ['--path']);
  const built = known.code === 0 ? { folder: known.stdout.trim() } : await build();
  if ('reason' in built) return refuse(built.reason);
  const { folder } = built;
  const { config } = JSON.parse(readFileSync(join(folder, 'config.json'), 'utf8')) as {
    config: ImageConfig;
  };
  return { isReady: true, image: { rootfs: join(folder, 'rootfs'), config } };
}

async function build(): Promise<{ readonly folder: string } | { readonly reason: string }> {
  let folder = '';
  const said: string[] = [];
  const child = start(BUILD_SCRIPT, [], {
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
  throw new Error(`scripts/image-build: code ${code}:\n${said.slice(-20).join('\n')}`);
}

/** Prints why tests are skipped; vitest only counts them. */
function refuse(reason: string): ImageReadiness {
  process.stderr.write(`\n=== image tests SKIPPED: ${reason}\n\n`);
  return { isReady: false, reason };
}
