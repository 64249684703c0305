// SPDX-License-Identifier: Apache-2.0
// The archives of the proxies' images: fairlead's, as its Dockerfile makes it, and two that have its layers and one more: the real
// kube-proxy, which uses its iptables, and a fairlead whose maps all have another layout.
import {
  cpSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { run } from '../../../../src/sys/exec.ts';
import { raiseVersions } from '../../../support/dataplane/other-build.ts';
import { kubernetesVersion } from '../../../support/programs/kubernetes.ts';
import { prepareImage } from '../../image/image.ts';
import { digest, tar } from '../nodes/images.ts';

export const NEXT_TAG = '0.2.0';

export interface ProxyImages {
  readonly fairlead: string;
  readonly kubeProxy: string;
  /** fairlead:0.2.0: every map in another version of its layout. */
  readonly next: string;
}

export type Readiness =
  | { readonly isReady: true; readonly images: ProxyImages }
  | { readonly isReady: false; readonly reason: string };

/** FAIRLEAD_IMAGE names another archive of fairlead:0.1.0 than that of this tree, with its files in `rootfs` beside it. */
export async function prepareProxyImages(kubeProxy: string): Promise<Readiness> {
  const named = process.env['FAIRLEAD_IMAGE'];
  const built = named === undefined ? await prepareImage() : undefined;
  if (built !== undefined && !built.isReady) return built;
  const fairlead = built?.image.archive ?? named ?? '';
  const images = {
    fairlead,
    kubeProxy: await derive(fairlead, {
      name: 'kube-proxy.tar',
      tag: `registry.k8s.io/kube-proxy:v${kubernetesVersion()}`,
      config: { Entrypoint: ['/usr/local/bin/kube-proxy'], WorkingDir: '/' },
      prepare: (work) => {
        const at = join(work, 'kube-proxy');
        cpSync(kubeProxy, at);
        return { at, inImage: 'usr/local/bin/kube-proxy' };
      },
    }),
    next: await derive(fairlead, {
      name: 'next.tar',
      tag: `docker.io/library/fairlead:${NEXT_TAG}`,
      config: {},
      prepare: (work) => raisedPart(join(dirname(fairlead), 'rootfs', PARTS), work),
    }),
  };
  return { isReady: true, images };
}

const PARTS = 'opt/fairlead/dist/parts';

interface LayerFile {
  readonly at: string;
  readonly inImage: string;
}

/** The one file that has the versions of maps, with all of them raised. */
function raisedPart(folder: string, work: string): LayerFile {
  for (const name of readdirSync(folder).filter((file) => file.endsWith('.js'))) {
    const text = readFileSync(join(folder, name), 'utf8');
    const raised = raiseVersions(text);
    if (raised === text) continue;
    const at = join(work, name);
    writeFileSync(at, raised);
    return { at, inImage: join(PARTS, name) };
  }
  throw new Error(`no file of ${folder} has the versions of maps`);
}

interface Derived {
  readonly name: string;
  readonly tag: string;
  readonly config: object;
  prepare(work: string): LayerFile;
}

/** Beside fairlead's archive, in its cache. */
async function derive(fairlead: string, spec: Derived): Promise<string> {
  const path = join(dirname(fairlead), spec.name);
  if (existsSync(path)) return path;
  const work = mkdtempSync(`${path}.`);
  const { code, stderr } = await run('tar', ['-C', work, '-xf', fairlead]);
  if (code !== 0) throw new Error(`tar ${fairlead}: ${stderr.trim()}`);
  const [image] = JSON.parse(readFileSync(join(work, 'manifest.json'), 'utf8'));
  const config = JSON.parse(readFileSync(join(work, image.Config), 'utf8'));
  const { at, inImage } = spec.prepare(work);
  const added = 'added-layer.tar';
  const rename = `--transform=s,^${basename(at)}$,${inImage},`;
  await tar(join(work, added), dirname(at), [rename, basename(at)]);
  config.rootfs.diff_ids.push(`sha256:${await digest(join(work, added))}`);
  config.history = undefined;
  Object.assign(config.config, spec.config);
  writeFileSync(join(work, 'config.json'), JSON.stringify(config));
  const layers = [...image.Layers, added];
  const manifest = [{ Config: 'config.json', RepoTags: [spec.tag], Layers: layers }];
  writeFileSync(join(work, 'manifest.json'), JSON.stringify(manifest));
  await tar(`${work}.tar`, work, ['manifest.json', 'config.json', ...layers]);
  rmSync(work, { recursive: true });
  renameSync(`${work}.tar`, path);
  return path;
}
