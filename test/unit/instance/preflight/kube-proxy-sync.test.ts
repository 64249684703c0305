// SPDX-License-Identifier: Apache-2.0
import { expect, test } from 'vitest';
import { syncedFamilies } from '../../../../src/instance/preflight/kube-proxy-sync.ts';

const NAME = 'kubeproxy_sync_proxy_rules_last_timestamp_seconds';

test.each([
  ['nobody answers', '', []],
  [
    'both, since Kubernetes 1.34',
    `${NAME}{ip_family="IPv4"} 1.7e+09\n${NAME}{ip_family="IPv6"} 1.7e+09\n`,
    ['IPv4', 'IPv6'],
  ],
  ['one after the other', `${NAME}{ip_family="IPv4"} 1.7e+09\n`, ['IPv4']],
  ['before Kubernetes 1.34', `# TYPE ${NAME} gauge\n${NAME} 1.7e+09\n`, ['IPv4', 'IPv6']],
  ['not yet', `${NAME} 0\n`, []],
  [
    'queued is not written',
    `kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds 1.7e+09\n`,
    [],
  ],
  ['a fairlead', `${NAME} 1.7e+09\nfairlead_up 1\n`, []],
])('%s', async (_, metrics, families) => {
  expect([...(await syncedFamilies(async () => metrics))]).toEqual(families);
});
