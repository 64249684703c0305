// SPDX-License-Identifier: Apache-2.0
// The program that changes slices, running next to the API server, so that it sees the time of each response
// without a relay in between. Requests are JSON lines on standard input, each with one reply.
import { createInterface } from 'node:readline';
import { type Api, connectApi } from '../../../test/integration/cluster/objects/api.ts';
import {
  changedAddresses,
  loadedSlice,
  serviceName,
} from '../../../test/integration/cluster/objects/load.ts';
import { slicesPath } from '../../../test/integration/cluster/objects/objects.ts';
import { monotonicMs } from '../clock.ts';
import type { ChangerReply, ChangerRequest, ChurnSpec } from './changes.ts';

const [url = '', ca = '', token = ''] = process.argv.slice(2);
const api = connectApi({ url, ca, token, connections: 1 });
const churnApi = connectApi({ url, ca, token, connections: 16 });
let churn: { end(): ChangerReply } | undefined;
/** Counts across all streams: starting over would request the current state, and nothing would change. */
let churned = 0;
const versions = new Map<number, string | undefined>();

/** Returns whether the object changed; throws if the API server rejects it. */
async function put(through: Api, service: number, addresses: readonly string[]): Promise<boolean> {
  const path = `${slicesPath()}/${serviceName(service)}`;
  const { metadata } = await through.replace(path, loadedSlice(service, addresses));
  const version = metadata?.resourceVersion;
  const isChange = version !== versions.get(service);
  versions.set(service, version);
  return isChange;
}

/** Changes one Service after the other at a fixed rate, catching up after delays. */
function startChurn({ perSecond, services, spared, endpointsEach }: ChurnSpec): typeof churn {
  const candidates = Array.from({ length: services }, (_, index) => index).filter(
    (service) => !spared.includes(service),
  );
  const startedMs = monotonicMs();
  let [sent, refused] = [0, 0];
  const timer = setInterval(() => {
    const due = ((monotonicMs() - startedMs) / 1000) * perSecond;
    for (; sent < due; sent += 1) {
      const service = candidates[churned % candidates.length]!;
      const round = 1 + Math.floor(churned / candidates.length);
      churned += 1;
      const count = (isChange: boolean): void => {
        refused += isChange ? 0 : 1;
      };
      const addresses = changedAddresses(service, endpointsEach, round);
      put(churnApi, service, addresses).then(count, () => count(false));
    }
  }, 1000 / perSecond);
  const end = (): ChangerReply => {
    clearInterval(timer);
    return { sent, refused, elapsedMs: monotonicMs() - startedMs };
  };
  return { end };
}

async function answer(request: ChangerRequest): Promise<ChangerReply> {
  if (request.op === 'churn') {
    churn = startChurn(request);
    return {};
  }
  // The awaited change is the last one of the stream.
  const ended = request.endsChurn ? churn?.end() : undefined;
  const { service, addresses } = request;
  if (service !== undefined) await put(api, service, addresses);
  return { ...ended, answeredMs: monotonicMs() };
}

for await (const line of createInterface({ input: process.stdin })) {
  process.stdout.write(`${JSON.stringify(await answer(JSON.parse(line)))}\n`);
}
process.exit(0);
