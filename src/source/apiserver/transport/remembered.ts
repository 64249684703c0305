// SPDX-License-Identifier: Apache-2.0
// API server endpoints found in the cluster, kept on disk for a cold start: after a reboot the ClusterIP
// of the API server is served by nobody until we have spoken to the API server.

import { mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { isRecord, recordOrEmpty } from '../../../lib/json.ts';
import { SERVICE_NAME_LABEL } from '../../../model/labels.ts';
import type { ObjectChange } from '../../../model/types.ts';
import { hostUrl } from './api-server.ts';

const FILE = 'api-servers.json';
const FORMAT = 1;
const MAX_URLS = 32;

/** Empty if there is no file, or none that can be read: it is only a memory. */
export async function readRemembered(runDir: string): Promise<readonly string[]> {
  try {
    const document: unknown = JSON.parse(await readFile(join(runDir, FILE), 'utf8'));
    const { format, urls } = recordOrEmpty(document);
    if (format !== FORMAT || !Array.isArray(urls)) return [];
    const isUrl = (url: unknown): url is string =>
      typeof url === 'string' && url.startsWith('https://') && URL.canParse(url);
    return urls.filter(isUrl).slice(0, MAX_URLS);
  } catch {
    return [];
  }
}

/** Replaces the file as a whole: a crash leaves the old one or the new one. */
export async function writeRemembered(runDir: string, urls: readonly string[]): Promise<void> {
  const path = join(runDir, FILE);
  await mkdir(runDir, { recursive: true, mode: 0o700 });
  const text = `${JSON.stringify({ format: FORMAT, urls: urls.slice(0, MAX_URLS) })}\n`;
  await writeFile(`${path}.new`, text, { mode: 0o600 });
  await rename(`${path}.new`, path);
}

/** Collects the endpoints of the Service default/kubernetes from the slices that pass by. */
export class ApiServerEndpoints {
  /** By slice: dual-stack clusters have one for each family. */
  readonly #urls = new Map<string, readonly string[]>();

  /** All URLs, if these changes changed them and left any; sorted. */
  take(changes: readonly ObjectChange[]): readonly string[] | undefined {
    let before: string | undefined;
    for (const change of changes) {
      if (!this.#isOurs(change)) continue;
      before ??= this.#all().join();
      this.#takeOne(change);
    }
    if (before === undefined) return undefined;
    const after = this.#all();
    return after.length === 0 || after.join() === before ? undefined : after;
  }

  /** Nearly none is: all changes of the cluster pass by. */
  #isOurs(change: ObjectChange): boolean {
    const { kind, namespace, name } = change.ref;
    if (kind !== 'EndpointSlice' || namespace !== 'default') return false;
    return change.type === 'remove'
      ? this.#urls.has(name)
      : ownerOf(change.object) === 'kubernetes';
  }

  #takeOne(change: ObjectChange): void {
    const { name } = change.ref;
    if (change.type === 'remove') this.#urls.delete(name);
    else this.#urls.set(name, urlsOf(change.object));
  }

  #all(): readonly string[] {
    return [...new Set([...this.#urls.values()].flat())].sort();
  }
}

function ownerOf(object: unknown): unknown {
  const metadata = recordOrEmpty(recordOrEmpty(object)['metadata']);
  return recordOrEmpty(metadata['labels'])[SERVICE_NAME_LABEL];
}

function urlsOf(object: unknown): readonly string[] {
  const { ports, endpoints } = recordOrEmpty(object);
  const portList: readonly unknown[] = Array.isArray(ports) ? ports : [];
  const endpointList: readonly unknown[] = Array.isArray(endpoints) ? endpoints : [];
  const https = portList.find((port) => isRecord(port) && port['name'] === 'https');
  const port = recordOrEmpty(https ?? portList[0])['port'];
  if (typeof port !== 'number') return [];
  return endpointList.flatMap((endpoint) => {
    const { addresses, conditions } = recordOrEmpty(endpoint);
    const address: unknown = Array.isArray(addresses) ? addresses[0] : undefined;
    const isReady = recordOrEmpty(conditions)['ready'] !== false;
    return isReady && typeof address === 'string' ? [hostUrl(address, port)] : [];
  });
}
