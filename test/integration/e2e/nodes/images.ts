// SPDX-License-Identifier: Apache-2.0
// Images of one program each, as `docker save` writes them, made without a container engine.
import { createHash } from 'node:crypto';
import {
  createReadStream,
  existsSync,
  mkdirSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { run } from '../../../../src/sys/exec.ts';

/** Paths of archives. */
export interface Images {
  readonly pause: string;
  /** The program of the tests' pods: image e2e-pod:1. */
  readonly pod: string;
  readonly coredns: string;
}

export interface ImageSpec {
  readonly tag: string;
  readonly entrypoint: readonly string[];
  /** A file of the image: its path there and here. */
  readonly file: { readonly at: string; readonly from: string };
}

/** They lie beside the programs, in the user's cache. */
export async function makeImages(podFolder: string, dnsFolder: string): Promise<Images> {
  const pod = { at: 'pod', from: join(podFolder, 'pod') };
  const coredns = { at: 'coredns', from: join(dnsFolder, 'coredns') };
  return {
    pause: await archive({ tag: 'pause:1', entrypoint: ['/pod', 'pause'], file: pod }),
    pod: await archive({ tag: 'e2e-pod:1', entrypoint: ['/pod'], file: pod }),
    coredns: await archive({ tag: 'coredns:1', entrypoint: ['/coredns'], file: coredns }),
  };
}

async function archive(spec: ImageSpec): Promise<string> {
  const name = spec.tag.replace(':', '-');
  const path = join(dirname(spec.file.from), `${name}.tar`);
  if (existsSync(path)) return path;
  const work = `${path}.${process.pid}`;
  mkdirSync(work, { recursive: true });
  const { at, from } = spec.file;
  await tar(join(work, 'layer.tar'), dirname(from), [`--transform=s,.*,${at},`, at]);
  const layer = await digest(join(work, 'layer.tar'));
  writeFileSync(join(work, 'config.json'), JSON.stringify(configOf(spec, layer)));
  const manifest = [{ Config: 'config.json', RepoTags: [spec.tag], Layers: ['layer.tar'] }];
  writeFileSync(join(work, 'manifest.json'), JSON.stringify(manifest));
  await tar(`${work}.tar`, work, ['manifest.json', 'config.json', 'layer.tar']);
  rmSync(work, { recursive: true });
  renameSync(`${work}.tar`, path);
  return path;
}

const configOf = ({ entrypoint }: ImageSpec, layer: string): object => ({
  architecture: process.arch === 'arm64' ? 'arm64' : 'amd64',
  os: 'linux',
  config: { Entrypoint: entrypoint, WorkingDir: '/' },
  rootfs: { type: 'layers', diff_ids: [`sha256:${layer}`] },
});

export async function tar(path: string, folder: string, args: readonly string[]): Promise<void> {
  const { code, stderr } = await run('tar', ['-C', folder, '--owner=0', '-cf', path, ...args]);
  if (code !== 0) throw new Error(`tar ${path}: ${stderr.trim()}`);
}

export async function digest(path: string): Promise<string> {
  const hash = createHash('sha256');
  for await (const part of createReadStream(path)) hash.update(part);
  return hash.digest('hex');
}
