// SPDX-License-Identifier: Apache-2.0
// Events about Services that an agent with --shadow would serve in another way than the kube-proxy that runs.
import type { ShadowView } from '../../observe/shadow-view.ts';
import type { EventRecorder } from './recorder.ts';

/** The recorder queues a hundred; metrics and `status` have all. */
const MOST = 20;

/** One Event for each Service, when what differs is new. @returns a function to be called with each view */
export function createShadowEvents(record: EventRecorder['record']): (view: ShadowView) => void {
  let told: ReadonlyMap<string, string> = new Map();
  return ({ differing }) => {
    const fresh = differing.filter(({ service, what }) => told.get(service) !== what);
    told = new Map(differing.map(({ service, what }) => [service, what]));
    for (const { service, what } of fresh.slice(0, MOST)) {
      const [namespace = '', name] = service.split('/');
      if (name === undefined) continue;
      record('ShadowDiffers', { kind: 'Service', namespace, name }, what);
    }
  };
}
