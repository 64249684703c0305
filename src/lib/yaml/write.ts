// SPDX-License-Identifier: Apache-2.0
import { dump } from 'js-yaml';

/** Keys are sorted. What YAML 1.1 would take for a number or a boolean is quoted (`yes`, `0777`): kube-proxy reads that version. */
export const sortedYaml = (value: object): string =>
  dump(value, { sortKeys: true, noRefs: true, lineWidth: -1, quotingType: '"' });
