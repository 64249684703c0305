// SPDX-License-Identifier: Apache-2.0
// Another build of fairlead: this one with other versions of the layouts of its maps.
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { packageRoot } from '../../../src/sys/package.ts';

export interface OtherBuild {
  /** Its main.js. */
  readonly program: string;
  remove(): void;
}

/** The table of src/engines/bpf/layout/versions.ts, whose name the bundle shortens, by its first line. */
const VERSIONS = /\{\s*fl_affinity\s*:\s*\d+\s*,[^}]*\}/;

/** The build whose versions are all greater by one, or those of the maps that are named. */
export function buildWithVersions(isRaised: (map: string) => boolean = () => true): OtherBuild {
  const root = packageRoot();
  const folder = mkdtempSync(join(tmpdir(), 'fairlead-build-'));
  cpSync(join(root, 'package.json'), join(folder, 'package.json'));
  cpSync(join(root, 'dist'), join(folder, 'dist'), { recursive: true });
  mkdirSync(join(folder, 'build'));
  for (const name of ['bpf', 'native'])
    symlinkSync(join(root, 'build', name), join(folder, 'build', name));
  const parts = join(folder, 'dist', 'parts');
  const changed = readdirSync(parts).filter((name) => raise(join(parts, name), isRaised));
  if (changed.length !== 1) throw new Error(`${changed.length} files have the versions of maps`);
  return {
    program: join(folder, 'dist', 'main.js'),
    remove: () => rmSync(folder, { recursive: true }),
  };
}

function raise(path: string, isRaised: (map: string) => boolean): boolean {
  if (!path.endsWith('.js')) return false;
  const text = readFileSync(path, 'utf8');
  const raised = raiseVersions(text, isRaised);
  if (raised === text) return false;
  writeFileSync(path, raised);
  return true;
}

/** Compiled code with other versions, where it is what has them. */
export const raiseVersions = (
  code: string,
  isRaised: (map: string) => boolean = () => true,
): string =>
  code.replace(VERSIONS, (versions) =>
    versions.replaceAll(/(fl_\w+)(\s*:\s*)(\d+)/g, (all, map: string, colon, version) =>
      isRaised(map) ? `${map}${colon}${Number(version) + 1}` : all,
    ),
  );
