// SPDX-License-Identifier: Apache-2.0
import { expect, test } from 'vitest';
import { ipvsFrontends } from '../../../../../src/engines/kube-proxy/serving/ipvs.ts';

const PROC = `IP Virtual Server version 1.2.1 (size=4096)
Prot LocalAddress:Port Scheduler Flags
  -> RemoteAddress:Port Forward Weight ActiveConn InActConn
TCP  0A600001:01BB rr persistent 10800
  -> AC120002:192B      Masq    1      0          0
  -> AC120003:192B      Masq    0      2          0
UDP  [fd00:0096:0000:0000:0000:0000:0000:000a]:0035 rr
  -> [fd00:0001:0000:0000:0000:0000:0000:0002]:14E9      Masq    1      0          0
FWM  00000001 wlc
  -> C0A80005:0000      Route   1      0          0
UDP  0A60000A:0035 rr
`;

test('virtual servers with the real servers that get new connections', () => {
  expect([...ipvsFrontends('IPv4', PROC)]).toEqual([
    ['10.96.0.1:443/TCP', ['172.18.0.2:6443']],
    ['10.96.0.10:53/UDP', []],
  ]);
  expect([...ipvsFrontends('IPv6', PROC)]).toEqual([['[fd00:96::a]:53/UDP', ['[fd00:1::2]:5353']]]);
  expect([...ipvsFrontends('IPv4', '')]).toEqual([]);
});
