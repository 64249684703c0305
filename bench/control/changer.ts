// SPDX-License-Identifier: Apache-2.0
// The program that changes slices, beside the API server: its clock tells when a change was answered, with
// no relay in between. Requests are JSON lines on standard input, each with one answer.
import { createInterface } from 'node:readline';
import { type Api, connectApi } from '../../test/cluster/api.ts';
import { changedAddresses, serviceName, slice } from '../../test/cluster/load.ts';
import { slicesPath } from '../../test/cluster/objects.ts';
import type { ChangerReply, ChangerRequest, ChurnSpec } from './changes.ts';
import { monotonicMs } from './clock.ts';

const [url = '', ca = '', token = ''] = process.argv.slice(2);
const api = connectApi({ url, ca, token, connections: 1 });
const churnApi = connectApi({ url, ca, token, connections: 16 });
let churn: { end(): ChangerReply } | undefined;

const put = (through: Api, service: number, addresses: readonly string[]): Promise<object> =>
  through.replace(`${slicesPath()}/${serviceName(service)}`, slice(service, addresses));

/** Changes one Service after the other at a fixed pace; what is late is made up for. */
function startChurn({ perSecond, services, spared, endpointsEach }: ChurnSpec): typeof churn {
  const candidates = Array.from({ length: services }, (_, index) => index).filter(
    (service) => !spared.includes(service),
  );
  const startedMs = monotonicMs();
  let [sent, refused] = [0, 0];
  const timer = setInterval(() => {
    const due = ((monotonicMs() - startedMs) / 1000) * perSecond;
    for (; sent < due; sent += 1) {
      const service = candidates[sent % candidates.length]!;
      const round = 1 + Math.floor(sent / candidates.length);
      put(churnApi, service, changedAddresses(service, endpointsEach, round)).catch(() => {
        refused += 1;
      });
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
  // A stream that ends has the change that is waited for as its last one.
  const ended = request.endsChurn ? churn?.end() : undefined;
  const { service, addresses } = request;
  if (service !== undefined) await put(api, service, addresses);
  return { ...ended, answeredMs: monotonicMs() };
}

for await (const line of createInterface({ input: process.stdin })) {
  process.stdout.write(`${JSON.stringify(await answer(JSON.parse(line)))}\n`);
}
process.exit(0);
