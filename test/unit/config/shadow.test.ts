// SPDX-License-Identifier: Apache-2.0
// --shadow: what it excludes, and the ports that it leaves to the kube-proxy that runs.
import { describe, expect, test } from 'vitest';
import { fromFile, fromFlags, HEAD, OWN_HEAD } from './configs.ts';

describe('a setting by which the node would change', () => {
  test.each([
    ['engine', 'bpf'],
    ['take-over', 'true'],
    ['ephemeral', 'true'],
  ])('--%s is excluded', (flag, value) => {
    expect(() => fromFlags({ shadow: 'true', [flag]: value })).toThrow(
      `--shadow: excludes --${flag}: it serves and changes nothing; leave one of them out`,
    );
    expect(fromFlags({ [flag]: value }).own.shadow).toBeUndefined();
  });

  test('--engine auto asks for nothing', () => {
    expect(fromFlags({ shadow: 'true', engine: 'auto' }).own.shadow).toEqual({ waitMs: 10_000 });
  });
});

describe('ports', () => {
  const DOCUMENT = `${HEAD}healthzBindAddress: 10.0.0.1:10256\nmetricsBindAddress: 10.0.0.1:9999\nmode: iptables\n`;
  const WITH_SHADOW = `${DOCUMENT}---\n${OWN_HEAD}shadow: true\nshadowWait: 5s\n`;

  test('those of its file are kube-proxy’s, and those of flags its own', () => {
    const at = (host: string, port: number) => ({ host, port });
    expect(fromFile(DOCUMENT).servers).toMatchObject({ metrics: at('10.0.0.1', 9999) });
    expect(fromFile(WITH_SHADOW).servers).toMatchObject({
      healthz: at('10.0.0.1', 10_266),
      metrics: at('10.0.0.1', 10_267),
    });
    expect(fromFlags({ shadow: 'true' }).servers).toMatchObject({
      healthz: at('0.0.0.0', 10_266),
      metrics: at('127.0.0.1', 10_267),
    });
    const flags = { shadow: 'true', 'metrics-bind-address': '127.0.0.1:7' };
    expect(fromFlags(flags).servers.metrics).toEqual(at('127.0.0.1', 7));
    expect(fromFlags({ shadow: 'true', 'metrics-bind-address': '' }).servers.metrics).toBe(
      undefined,
    );
  });

  test('its mode is kube-proxy’s, and chooses no engine', () => {
    expect(fromFile(DOCUMENT).warnings).toHaveLength(1);
    expect(fromFile(WITH_SHADOW).warnings).toEqual([]);
    expect(fromFile(WITH_SHADOW).own.shadow).toEqual({ waitMs: 5_000 });
  });
});
