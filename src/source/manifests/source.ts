// SPDX-License-Identifier: Apache-2.0
// A folder of manifests as the agent knows it.
import type { Source } from '../source.ts';
import { type FollowOptions, type ManifestSource, openManifests } from './manifests.ts';

export function manifestsSource(dir: string, options: FollowOptions): Source {
  let manifests: ManifestSource | undefined;
  return {
    kind: 'manifests',
    location: dir,
    start: (listener) => {
      manifests = openManifests(dir, listener, options);
    },
    problems: () => manifests?.problems() ?? [],
    locate: (ref, field) => manifests?.locate(ref, field),
    judged: (changes, refused) => manifests?.judged(changes, refused),
    close: () => manifests?.close(),
  };
}
