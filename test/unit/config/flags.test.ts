// SPDX-License-Identifier: Apache-2.0
// kube-proxy's flags: what they set, their effect beside --config, and how commander parses them.
import { Command } from 'commander';
import { describe, expect, test } from 'vitest';
import { addAllFlags, flagValues } from '../../../src/cli/config-flags.ts';
import { FLAGS } from '../../../src/config/flags/flags.ts';
import { fromFile, fromFlags, HEAD, OWN_HEAD, problemsOf, warningsOf } from './configs.ts';

describe('without a file', () => {
  test('flags set the same as the file', () => {
    const config = fromFlags({
      'cluster-cidr': '10.0.0.0/8, fd00::/8',
      'detect-local-mode': 'InterfaceNamePrefix',
      'pod-interface-name-prefix': 'veth',
      'nodeport-addresses': 'primary,10.0.0.0/8',
      'masquerade-all': 'true',
      'bind-address': '10.0.0.9',
      'hostname-override': ' N1 ',
      'iptables-sync-period': '1m',
      'conntrack-max-per-core': '0',
      'oom-score-adj': '-998',
      kubeconfig: '/k',
      master: 'https://10.0.0.1:6443',
      'api-server': 'https://10.0.0.2:6443,https://10.0.0.3:6443',
      v: '4',
    });
    expect(config.plan).toEqual({
      nodeName: 'n1',
      detectLocalMode: 'InterfaceNamePrefix',
      clusterCidrs: ['10.0.0.0/8', 'fd00::/8'],
      podInterfaceNamePrefix: 'veth',
      masqueradeAll: true,
      nodePortAddresses: ['primary', '10.0.0.0/8'],
      bindAddress: '10.0.0.9',
      allowExternalIps: true,
    });
    expect(config.source).toMatchObject({
      kubeconfig: '/k',
      apiServers: ['https://10.0.0.1:6443', 'https://10.0.0.2:6443', 'https://10.0.0.3:6443'],
    });
    expect(config.syncPeriodMs).toBe(60_000);
    expect(config.conntrack.maxPerCore).toBe(0);
    expect(config.oomScoreAdj).toBe(-998);
    expect(config.log.level).toBe('debug');
    expect(warningsOf(config)).toEqual([]);
  });

  test('our flags set the same as our document', () => {
    const config = fromFlags({
      manifests: '/m',
      'map-size': 'frontends=5,service-ports=6',
      'audit-interval': '1m',
      'external-ips': 'false',
      'log-format': 'text',
    });
    expect(config.own).toMatchObject({
      mapSizes: { frontends: 5, 'service-ports': 6 },
      auditIntervalMs: 60_000,
    });
    expect(config.source).toEqual({ kind: 'manifests', dir: '/m', removalDelayMs: 30_000 });
    expect(config.plan.allowExternalIps).toBe(false);
    expect(config.log.format).toBe('text');
  });

  test.each([
    ['30', 30_000],
    ['0.5', 500],
    ['1m30s', 90_000],
  ])('in flags of ours a duration of %s may lack its unit', (text, ms) => {
    expect(fromFlags({ 'audit-interval': text }).own.auditIntervalMs).toBe(ms);
  });

  test.each([
    [
      { 'healthz-port': '65536' },
      '--healthz-port: must be a port number from 0 to 65535, not "65536"',
    ],
    [{ 'bind-address': 'x' }, '--bind-address: must be an IP address, not "x"'],
    [
      { 'proxy-mode': 'kernelspace' },
      '--proxy-mode: must be "", iptables, ipvs or nftables, not "kernelspace"',
    ],
    [{ 'masquerade-all': 'si' }, '--masquerade-all: must be true or false, not "si"'],
    [{ 'oom-score-adj': 'low' }, '--oom-score-adj: must be an integer, not "low"'],
    [
      { 'iptables-sync-period': '5' },
      '--iptables-sync-period: must be a duration such as 30s, 1m30s or 15m0s, not "5"',
    ],
    [{ 'audit-interval': '0' }, '--audit-interval: must be from 100ms to 576h, not "0s"'],
    [
      { 'audit-interval': '1000h' },
      '--audit-interval: must be from 100ms to 576h, not "1000h0m0s"',
    ],
    [{ 'feature-gates': 'A' }, '--feature-gates: must be true or false, not "A"'],
    [
      { 'map-size': 'frontend=5' },
      '--map-size: must name one of frontends, backends, service-ports, slot-blocks, affinity, source-ranges, flows, not "frontend=5"',
    ],
    [
      { 'detect-local-mode': 'BridgeInterface' },
      '--pod-bridge-interface: must be set for detectLocalMode BridgeInterface',
    ],
  ])('%j is refused by the name of the flag', (flags, says) => {
    expect(problemsOf(() => fromFlags(flags))).toEqual([says]);
  });

  const servers: readonly (readonly [Record<string, string>, unknown, unknown])[] = [
    [{}, { host: '0.0.0.0', port: 10256 }, { host: '127.0.0.1', port: 10249 }],
    [{ 'healthz-bind-address': '', 'metrics-bind-address': '' }, undefined, undefined],
    [{ 'healthz-port': '0', 'metrics-port': '0' }, undefined, undefined],
    [
      { 'healthz-port': '1', 'metrics-port': '2', 'bind-address': '::' },
      { host: '::', port: 1 },
      { host: '::1', port: 2 },
    ],
    [
      { 'healthz-bind-address': '10.0.0.1', 'metrics-bind-address': 'fd00::1' },
      { host: '10.0.0.1', port: 10256 },
      { host: 'fd00::1', port: 10249 },
    ],
  ];
  test.each(servers)('%j binds healthz and metrics', (flags, healthz, metrics) => {
    const config = fromFlags(flags).servers;
    expect([config.healthz, config.metrics]).toEqual([healthz, metrics]);
  });

  test('actions', () => {
    expect(fromFlags({}).actions).toEqual({
      writeConfigTo: undefined,
      cleanup: false,
      initOnly: false,
    });
    expect(
      fromFlags({ 'write-config-to': '/f', cleanup: 'true', 'init-only': '1' }).actions,
    ).toEqual({
      writeConfigTo: '/f',
      cleanup: true,
      initOnly: true,
    });
  });
});

describe('with a file', () => {
  test("kube-proxy's flags are ignored and named; name, logging and actions hold; ours override", () => {
    const config = fromFile(
      `${HEAD}clusterCIDR: 10.0.0.0/8\nhostnameOverride: file\nlogging: {verbosity: 1}\n---\n${OWN_HEAD}runDir: /file\nbpfRoot: /bpf\n`,
      {
        config: 'c.yaml',
        'cluster-cidr': '11.0.0.0/8',
        'healthz-port': '0',
        'metrics-bind-address': '',
        'hostname-override': 'flag',
        v: '5',
        'run-dir': '/flag',
        'init-only': 'true',
        master: 'https://m',
      },
    );
    expect(config.plan).toMatchObject({ nodeName: 'flag', clusterCidrs: ['10.0.0.0/8'] });
    expect(config.servers.healthz).toEqual({ host: '0.0.0.0', port: 10256 });
    expect(config.servers.metrics).toEqual({ host: '127.0.0.1', port: 10249 });
    expect(config.log.level).toBe('debug');
    expect(config.own).toMatchObject({ runDir: '/flag', bpfRoot: '/bpf' });
    expect(config.actions.initOnly).toBe(true);
    expect(config.source).toMatchObject({ apiServers: ['https://m'] });
    expect(warningsOf(config)).toEqual([
      '--metrics-bind-address: ignored: --config is given and takes precedence',
      '--healthz-port: ignored: --config is given and takes precedence',
      '--cluster-cidr: ignored: --config is given and takes precedence',
    ]);
  });

  test('an invalid flag beside a valid file is reported as the flag', () => {
    expect(problemsOf(() => fromFile(HEAD, { 'logging-format': 'xml' }))).toEqual([
      '--logging-format: must be text or json, not "xml"',
    ]);
  });
});

describe('on the command line', () => {
  const parse = (...args: string[]) => {
    const command = addAllFlags(new Command('run')).exitOverride();
    command.configureOutput({ writeErr: () => {} });
    command.parse(args, { from: 'user' });
    return flagValues(command);
  };

  test('every flag of the table can be given', () => {
    for (const { flag, type } of FLAGS) {
      const text = type === 'bool' ? 'false' : '1';
      expect(parse(`--${flag}=${text}`)).toEqual({ [flag]: text });
    }
  });

  test.each([
    [[], {}],
    [['-v', '2'], { v: '2' }],
    [['-v=2'], { v: '2' }],
    [['--v=2'], { v: '2' }],
    [['--masquerade-all'], { 'masquerade-all': 'true' }],
    [['--masquerade-all=false'], { 'masquerade-all': 'false' }],
    [['--oom-score-adj=-998'], { 'oom-score-adj': '-998' }],
    [['--metrics-bind-address='], { 'metrics-bind-address': '' }],
    [['--nodeport-addresses=a', '--nodeport-addresses=b,c'], { 'nodeport-addresses': 'a,b,c' }],
    [['--no-external-ips'], { 'external-ips': 'false' }],
  ])('%j', (args, values) => {
    expect(parse(...args)).toEqual(values);
  });

  test('an unknown flag is rejected', () => {
    expect(() => parse('--logtostderr')).toThrow(/unknown option '--logtostderr'/);
  });
});
