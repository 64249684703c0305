// SPDX-License-Identifier: Apache-2.0
// Prerequisites of the demo, one line each.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { findCgroup2 } from '../../src/sys/cgroup.ts';
import { run } from '../../src/sys/exec.ts';
import { bpfObjectPath, packageRoot } from '../../src/sys/package.ts';

export interface Need {
  readonly name: string;
  readonly isMet: boolean;
  /** What was found, or what is missing and what to do about it. */
  readonly text: string;
}

const BTF_PATH = '/sys/kernel/btf/vmlinux';
const TOOLS = [
  { program: 'ip', args: ['-V'], from: 'iproute2' },
  { program: 'nsenter', args: ['-V'], from: 'util-linux' },
] as const;

/** Checks everything, so that one run reports all that is missing. */
export async function checkNeeds(): Promise<Need[]> {
  const cgroup2 = findCgroup2();
  const addon = join(packageRoot(), 'build', 'native', 'fairlead.node');
  const missing = [addon, bpfObjectPath('sock.bpf.o')].filter((path) => !existsSync(path));
  return [
    need('root', process.getuid?.() === 0, 'yes', 'run it with sudo: it makes namespaces'),
    need(
      'cgroup v2',
      cgroup2 !== undefined,
      cgroup2 ?? '',
      'mount it: mount -t cgroup2 cgroup2 DIR',
    ),
    need('kernel types', existsSync(BTF_PATH), BTF_PATH, `no ${BTF_PATH}: CONFIG_DEBUG_INFO_BTF=y`),
    need('build', missing.length === 0, 'complete', `no ${missing.join(', ')}: npm run build`),
    ...(await Promise.all(TOOLS.map(checkTool))),
  ];
}

async function checkTool({ program, args, from }: (typeof TOOLS)[number]): Promise<Need> {
  const { code, stdout } = await run(program, args);
  return need(program, code === 0, stdout.trim(), `install ${from}`);
}

function need(name: string, isMet: boolean, found: string, advice: string): Need {
  return { name, isMet, text: isMet ? found : advice };
}
