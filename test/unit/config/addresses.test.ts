// SPDX-License-Identifier: Apache-2.0
import { expect, test } from 'vitest';
import {
  defaultHosts,
  nodeNameOf,
  parseListenAddress,
  realBindAddress,
  withPort,
} from '../../../src/config/addresses.ts';

test.each([
  ['10.0.0.1', '10.0.0.1:10256'],
  ['10.0.0.1:1', '10.0.0.1:1'],
  ['fd00::1', '[fd00::1]:10256'],
  ['[fd00::1]:1', '[fd00::1]:1'],
  ['[fd00::1]', '[fd00::1]'],
  ['localhost', 'localhost'],
])('the port is added to an address that has none: %s -> %s', (address, out) => {
  expect(withPort(address, 10256)).toBe(out);
});

test.each([
  ['0.0.0.0:10256', { host: '0.0.0.0', port: 10256 }],
  ['[::]:10256', { host: '::', port: 10256 }],
  ['[2001:DB8::1]:1', { host: '2001:db8::1', port: 1 }],
  ['::1:80', undefined],
  [':80', undefined],
  ['localhost:80', undefined],
  ['10.0.0.1', undefined],
  ['10.0.0.1:0', undefined],
  ['10.0.0.1:65536', undefined],
])('%s is read as an address to listen on', (text, out) => {
  expect(parseListenAddress(text)).toEqual(out);
});

test('servers bind in the family of the bind address', () => {
  expect(defaultHosts('0.0.0.0')).toEqual({ healthz: '0.0.0.0', metrics: '127.0.0.1' });
  expect(defaultHosts('fd00::1')).toEqual({ healthz: '::', metrics: '::1' });
});

test.each([
  ['0.0.0.0', undefined],
  ['::', undefined],
  ['10.0.0.1', '10.0.0.1'],
  ['FD00::1', 'fd00::1'],
])('bind address %s replaces the node IP by %s', (text, out) => {
  expect(realBindAddress(text)).toBe(out);
});

test.each([
  ['', 'Node-A.Example ', 'node-a.example'],
  [' OVER ', 'host', 'over'],
  ['  ', 'host', ''],
])('override %j on host %j gives the node name %j', (override, hostname, out) => {
  expect(nodeNameOf(override, hostname)).toBe(out);
});
