// SPDX-License-Identifier: Apache-2.0
import { expect, test } from 'vitest';
import { FLAGS } from '../../../src/config/flags/flags.ts';
import { flagz } from '../../../src/config/flags/flagz.ts';

test('every flag of kube-proxy, what was given or kube-proxy’s default, sorted', () => {
  const shown = flagz({ 'cluster-cidr': '10.0.0.0/8', v: '4' });
  expect(shown).toMatchObject({
    'bind-address': '0.0.0.0',
    'cluster-cidr': '10.0.0.0/8',
    'config-sync-period': '15m0s',
    'conntrack-min': '131072',
    'feature-gates': '',
    'healthz-bind-address': '0.0.0.0:10256',
    help: 'false',
    'ipvs-exclude-cidrs': '[]',
    'iptables-localhost-nodeports': 'true',
    'kube-api-qps': '5',
    'nodeport-addresses': '[]',
    v: '4',
  });
  expect(Object.keys(shown)).toEqual(Object.keys(shown).toSorted());
  const ofKubeProxy = FLAGS.filter(({ group }) => group !== 'own').map(({ flag }) => flag);
  expect(Object.keys(shown)).toEqual([...ofKubeProxy, 'help', 'version'].sort());
});

test('our own flags are listed if given', () => {
  expect(flagz({})).not.toHaveProperty('engine');
  expect(flagz({ engine: 'bpf' })).toHaveProperty('engine', 'bpf');
});
