// SPDX-License-Identifier: Apache-2.0
// One server's problem, seen by four kinds, in words a person can act on.
import { expect, test } from 'vitest';
import { foldProblems } from '../../../../src/source/apiserver/problems.ts';

const KINDS = ['Service', 'EndpointSlice', 'Node', 'ServiceCIDR'] as const;
const cluster = { servers: ['https://a:6443'], credentials: '/k/config', kinds: KINDS.length };
const fold = (reason: string, kinds: readonly (typeof KINDS)[number][] = KINDS) =>
  foldProblems(
    kinds.map((kind) => ({ kind, reason })),
    cluster,
  );

test('what all kinds have is one problem of all; what some have names them', () => {
  expect(fold('HTTP 500: no')).toEqual([
    { reason: 'API server https://a:6443: HTTP 500: no', kinds: 'all' },
  ]);
  expect(fold('HTTP 500: no', ['Service', 'Node'])).toMatchObject([{ kinds: 'Service, Node' }]);
});

test('what only the kind or the server of a ring makes different is the same problem', () => {
  const forbidden = (what: string): string =>
    `HTTP 403: ${what} is forbidden: User "x" cannot list resource "${what}" in API group ""`;
  const problems = [
    { kind: 'Service', reason: forbidden('services') },
    { kind: 'Node', reason: forbidden('nodes') },
  ] as const;
  expect(foldProblems(problems, cluster)).toMatchObject([{ kinds: 'Service, Node' }]);
  const ring = [
    { kind: 'Service', reason: 'connect ECONNREFUSED 10.0.0.1:6443' },
    { kind: 'Node', reason: 'connect ECONNREFUSED 10.0.0.2:6443' },
  ] as const;
  expect(foldProblems(ring, cluster)).toMatchObject([{ kinds: 'Service, Node' }]);
});

test('two reasons are two problems, and further servers are counted', () => {
  const folded = foldProblems(
    [
      { kind: 'Service', reason: 'HTTP 500: no' },
      { kind: 'Node', reason: 'HTTP 503: no' },
    ],
    { ...cluster, servers: ['https://a:6443', 'https://b:6443'] },
  );
  expect(folded.map(({ reason, kinds }) => `${kinds}: ${reason}`)).toEqual([
    'Service: API server https://a:6443 and 1 more: HTTP 500: no',
    'Node: API server https://a:6443 and 1 more: HTTP 503: no',
  ]);
});

test('a kubeconfig that cannot be used is no fault of a server', () => {
  const reason = 'kubeconfig /k/config cannot be read: permission denied';
  expect(fold(reason)).toEqual([{ reason, kinds: 'all' }]);
});

test.each([
  ['HTTP 401: Unauthorized', /^HTTP 401: Unauthorized; renew the credentials in \/k\/config/],
  [
    'HTTP 403: services is forbidden: User "x" cannot list resource "services" in API group ""',
    /^HTTP 403: user "x" may not read them; bind the role system:node-proxier/,
  ],
  ['getaddrinfo ENOTFOUND nowhere', /^getaddrinfo ENOTFOUND nowhere; .* cannot resolve the name/],
  ['getaddrinfo EAI_AGAIN nowhere', /^getaddrinfo EAI_AGAIN nowhere; .* cannot resolve the name/],
  ['connect ECONNREFUSED 10.0.0.1:6443', /^connect ECONNREFUSED; check that the server is running/],
  [
    'Connect Timeout Error (attempted address: a:6443, timeout: 10000ms)',
    /^Connect Timeout Error \(10000 ms\); no reply/,
  ],
  ['no answer from https://a:6443 in time', /^no answer in time; no reply/],
  ['connect EHOSTUNREACH 10.0.0.1:6443', /^connect EHOSTUNREACH; no reply/],
  ['certificate has expired', /; renew the server's certificate, or the CA in \/k\/config/],
  ['unable to verify the first certificate', /; the CA in \/k\/config did not sign/],
  ['self-signed certificate in certificate chain', /; the CA in \/k\/config did not sign/],
  ["Hostname/IP does not match certificate's altnames: x", /; .*tls-server-name/],
])('%s comes with what to do', (reason, advice) => {
  const [problem] = fold(reason);
  expect(problem?.reason.replace(/^API server https:\/\/a:6443: /, '')).toMatch(advice);
});
