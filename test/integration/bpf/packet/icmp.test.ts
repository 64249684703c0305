// SPDX-License-Identifier: Apache-2.0
// ICMP errors about packets of flows, from both sides: what they quote is what their receiver sent.
import { describe, expect, test } from 'vitest';
import { buildFrame } from '../../../support/packets/build.ts';
import { sharedDrive } from './support/shared-drive.ts';
import { names, PLACES, publish } from './support/stage.ts';

const drive = sharedDrive();

describe.each(['IPv4', 'IPv6'] as const)('%s', (family) => {
  const { client, vip, node, pod } = names(family);
  const at = PLACES[family];
  const router = family === 'IPv4' ? '192.0.2.254' : '2001:db8::fe';
  const errors =
    family === 'IPv4'
      ? ['icmp 3/1', 'icmp 3/4 mtu=1400', 'icmp 11/0']
      : ['icmp6 1/0', 'icmp6 2/0 mtu=1400', 'icmp6 3/0'];
  const headers = family === 'IPv4' ? 20 : 40;
  const words = ['tcp ACK seq=5 payload=9', 'udp payload=9', 'udp payload=9 nosum'] as const;
  const cases = errors.flatMap((error) => words.map((word) => [error, word] as const));

  function begin(word: string, masquerade = true): void {
    const protocol = word.startsWith('tcp') ? 'TCP' : 'UDP';
    publish(drive, family, { protocol, rule: { masquerade } });
    drive.through(`${client()} > ${vip()} ${protocol === 'TCP' ? 'tcp SYN' : 'udp payload=1'}`);
  }

  test.each(cases)('from behind the backend: %s about %s', (error, word) => {
    begin(word);
    const inside = drive.ingress(
      `${router} > ${at.node} ${error} | ${node(40_000)} > ${pod(5)} ${word}`,
    );
    expect(inside).toBe(`${router} > ${at.client} ${error} | ${client()} > ${pod(5)} ${word}`);
    expect(drive.egress(inside)).toBe(
      `${router} > ${at.client} ${error} | ${client()} > ${vip()} ${word}`,
    );
    expect(drive.reasons()).toEqual({ ICMP_TRANSLATED: 1 });
  });

  test.each(cases)('from before the client: %s about %s', (error, word) => {
    begin(word);
    const inside = drive.ingress(`${router} > ${at.vip} ${error} | ${vip()} > ${client()} ${word}`);
    expect(inside).toBe(`${router} > ${at.pod(5)} ${error} | ${pod(5)} > ${client()} ${word}`);
    expect(drive.egress(inside)).toBe(
      `${router} > ${at.pod(5)} ${error} | ${pod(5)} > ${node(40_000)} ${word}`,
    );
  });

  const [error = ''] = errors;
  const word = 'udp payload=9';

  test('an error of the backend or of the client itself comes from who its receiver talks to', () => {
    begin(word);
    expect(
      drive.through(`${at.pod(5)} > ${at.node} ${error} | ${node(40_000)} > ${pod(5)} ${word}`),
    ).toBe(`${at.vip} > ${at.client} ${error} | ${client()} > ${vip()} ${word}`);
    expect(
      drive.through(`${at.client} > ${at.vip} ${error} | ${vip()} > ${client()} ${word}`),
    ).toBe(`${at.node} > ${at.pod(5)} ${error} | ${pod(5)} > ${node(40_000)} ${word}`);
  });

  test('without masquerading the client is quoted', () => {
    begin(word, false);
    const sent = `${router} > ${at.client} ${error} | ${client()} > ${pod(5)} ${word}`;
    expect(drive.through(sent)).toBe(
      `${router} > ${at.client} ${error} | ${client()} > ${vip()} ${word}`,
    );
    expect(drive.through(`${router} > ${at.vip} ${error} | ${vip()} > ${client()} ${word}`)).toBe(
      `${router} > ${at.pod(5)} ${error} | ${pod(5)} > ${client()} ${word}`,
    );
  });

  test('a client whose port differs for the backend finds its own port', () => {
    begin(word, false);
    drive.putFrontend({
      ...{ address: at.vip, port: 81, protocol: 'UDP' as const },
      rules: { host: { set: drive.putSet(1, [1]) } },
    });
    const [, port = ''] = /:(\d+) > /.exec(drive.ingress(`${client()} > ${vip(81)} ${word}`)) ?? [];
    const other = client(Number(port));
    expect(drive.through(`${router} > ${at.client} ${error} | ${other} > ${pod(5)} ${word}`)).toBe(
      `${router} > ${at.client} ${error} | ${client()} > ${vip(81)} ${word}`,
    );
    expect(drive.through(`${router} > ${at.vip} ${error} | ${vip(81)} > ${client()} ${word}`)).toBe(
      `${router} > ${at.pod(5)} ${error} | ${pod(5)} > ${other} ${word}`,
    );
  });

  test.each(words)('a short quote is the beginning of the long one: %s', (quoted) => {
    begin(quoted);
    const line = (quote: string): string =>
      `${router} > ${at.node} ${error} ${quote} | ${node(40_000)} > ${pod(5)} ${quoted}`;
    const translated = (quote: string): Uint8Array => {
      const inside = drive.run('fl_ingress', buildFrame(line(quote))).frame;
      return drive.run('fl_egress', inside).frame.subarray(14 + headers + 8);
    };
    const short = translated(`quote=${headers + 8}`);
    expect(short.length).toBe(headers + 8);
    expect(short).toEqual(translated('').subarray(0, headers + 8));
  });

  test('what is forged is left: another receiver, no such flow, a short or a later quote', () => {
    begin(word);
    const [type] = error.split(' ');
    const about = `${node(40_000)} > ${pod(5)} ${word}`;
    for (const line of [
      `${router} > ${at.client} ${error} | ${about}`,
      `${router} > ${at.node} ${error} | ${node(40_001)} > ${pod(5)} ${word}`,
      `${router} > ${at.node} ${error} | ${node(40_000)} > ${pod(6)} ${word}`,
      `${router} > ${at.node} ${error} quote=${headers + 7} | ${about}`,
      `${router} > ${at.node} ${error} quote=${headers - 1} | ${about}`,
      `${router} > ${at.node} ${error} | ${about} frag=8`,
      `${router} > ${at.node} ${error} cut=${headers + 4} length=${family === 'IPv4' ? 24 : 4} | ${about}`,
      `${router} > ${at.node} ${type} ${family === 'IPv4' ? '8/0' : '128/0'} payload=9`,
    ]) {
      const sent = buildFrame(line);
      expect(drive.run('fl_ingress', sent), line).toEqual({ action: 0xffffffff, frame: sent });
      expect(drive.run('fl_egress', sent), line).toEqual({ action: 0xffffffff, frame: sent });
    }
    expect(drive.reasons()).toEqual({});
  });

  test('extension headers and options of what is quoted are skipped', () => {
    begin(word);
    const more = family === 'IPv4' ? 'options' : 'ext=hop,dst';
    expect(
      drive.through(
        `${router} > ${at.node} ${error} | ${node(40_000)} > ${pod(5)} ${word} ${more}`,
      ),
    ).toBe(`${router} > ${at.client} ${error} | ${client()} > ${vip()} ${word} ${more}`);
  });
});
