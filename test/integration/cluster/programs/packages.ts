// SPDX-License-Identifier: Apache-2.0
// Debian packages that only these tests need, installed on first use.
import { run } from '../../../../src/sys/exec.ts';

const APT = ['-qq', '-o', 'DPkg::Lock::Timeout=300', '-o', 'Acquire::Retries=3'];

/** Returns the reason if the packages cannot be installed, or undefined once they are. */
export async function ensurePackages(names: readonly string[]): Promise<string | undefined> {
  const missing = await missingPackages(names);
  if (missing.length === 0) return undefined;
  if ((await run('apt-get', ['--version'])).code !== 0) return `needs ${missing.join(', ')}`;
  process.stderr.write(`cluster: installing ${missing.join(' ')}\n`);
  const timeoutMs = 600_000;
  await run('apt-get', [...APT, 'update'], { timeoutMs });
  const { code, stderr } = await run(
    'env',
    [
      ...['DEBIAN_FRONTEND=noninteractive', 'apt-get', ...APT],
      ...['install', '-y', '--no-install-recommends', ...missing],
    ],
    { timeoutMs },
  );
  return code === 0 ? undefined : `cannot install ${missing.join(', ')}: ${stderr.trim()}`;
}

async function missingPackages(names: readonly string[]): Promise<string[]> {
  const fields = ['{Package}', '{db:Status-Status}'].map((field) => `$${field}`).join(' ');
  const { stdout } = await run('dpkg-query', ['-W', '-f', `${fields}\n`, ...names]);
  const installed = new Set(stdout.split('\n'));
  return names.filter((name) => !installed.has(`${name} installed`));
}
