// SPDX-License-Identifier: Apache-2.0
// Translation of packets at ingress and at egress: what comes in, what goes out.
import { describe, expect, test } from 'vitest';
import { sharedDrive } from './support/shared-drive.ts';
import { names, PLACES, publish } from './support/stage.ts';

const drive = sharedDrive({}, { withoutMac: true });

describe.each(['IPv4', 'IPv6'] as const)('%s', (family) => {
  const { client, vip, node, pod } = names(family);
  const masquerade = { rule: { masquerade: true } };

  describe.each([
    ['TCP', 'tcp SYN'],
    ['UDP', 'udp payload=5'],
  ] as const)('%s', (protocol, word) => {
    const seen = `${word} payload=5`.replace('payload=5 payload=5', 'payload=5');

    test('a request goes to the backend, a reply comes from the frontend', () => {
      publish(drive, family, { protocol });
      expect(drive.ingress(`${client()} > ${vip()} ${seen}`)).toBe(
        `${client()} > ${pod(5)} ${seen}`,
      );
      expect(drive.egress(`${client()} > ${pod(5)} ${seen}`)).toBe(
        `${client()} > ${pod(5)} ${seen}`,
      );
      expect(drive.ingress(`${pod(5)} > ${client()} ${seen}`)).toBe(
        `${pod(5)} > ${client()} ${seen}`,
      );
      expect(drive.egress(`${pod(5)} > ${client()} ${seen}`)).toBe(
        `${vip()} > ${client()} ${seen}`,
      );
      expect(drive.reasons()).toEqual({});
    });

    test('masqueraded, the backend sees the node; the reply finds the client', () => {
      publish(drive, family, { protocol, ...masquerade });
      expect(drive.through(`${client()} > ${vip()} ${seen}`)).toBe(
        `${node(40_000)} > ${pod(5)} ${seen}`,
      );
      expect(drive.ingress(`${pod(5)} > ${node(40_000)} ${seen}`)).toBe(
        `${pod(5)} > ${client()} ${seen}`,
      );
      expect(drive.egress(`${pod(5)} > ${client()} ${seen}`)).toBe(
        `${vip()} > ${client()} ${seen}`,
      );
    });

    test('what was translated once is left alone by the next device', () => {
      publish(drive, family, { protocol, ...masquerade });
      const inside = drive.ingress(`${client()} > ${vip()} ${seen}`);
      expect(drive.ingress(inside)).toBe(inside);
      const outside = drive.egress(inside);
      expect(drive.egress(outside)).toBe(outside);
      const reply = drive.through(`${pod(5)} > ${node(40_000)} ${seen}`);
      expect(drive.egress(reply)).toBe(reply);
    });

    test('a client that is the backend is masqueraded', () => {
      publish(drive, family, { protocol });
      expect(drive.through(`${pod(5, 40_000)} > ${vip()} ${seen}`)).toBe(
        `${node(40_000)} > ${pod(5)} ${seen}`,
      );
      expect(drive.through(`${pod(5)} > ${node(40_000)} ${seen}`)).toBe(
        `${vip()} > ${pod(5, 40_000)} ${seen}`,
      );
    });

    test('also if it uses the port of the backend', () => {
      publish(drive, family, { protocol });
      const request = drive.through(`${pod(5)} > ${vip()} ${seen}`);
      const [, port = ''] = /:(\d+) > /.exec(request) ?? [];
      expect(request).toBe(`${node(Number(port))} > ${pod(5)} ${seen}`);
      expect(drive.through(`${pod(5)} > ${node(Number(port))} ${seen}`)).toBe(
        `${vip()} > ${pod(5)} ${seen}`,
      );
      expect(drive.reasons()).toEqual({ CLIENT_PORT_CHANGED: 1 });
    });
  });

  test('a local backend sees the client where the rule keeps it', () => {
    const rule = { masquerade: true, keepsLocalClient: true };
    publish(drive, family, { rule, backends: [{ isLocal: true }] });
    expect(drive.through(`${client()} > ${vip()} tcp SYN`)).toBe(`${client()} > ${pod(5)} tcp SYN`);
  });

  test('options and extension headers stay', () => {
    publish(drive, family);
    const word = family === 'IPv4' ? 'options' : 'ext=hop,route,dst';
    expect(drive.ingress(`${client()} > ${vip()} tcp SYN ${word}`)).toBe(
      `${client()} > ${pod(5)} tcp SYN ${word}`,
    );
  });

  test('the source of masqueraded packets is the device’s own address, else the node’s', () => {
    const own = family === 'IPv4' ? '172.20.0.1' : 'fd00:20::1';
    publish(drive, family, masquerade);
    drive.putDevice({ [family]: own });
    expect(drive.through(`${client()} > ${vip()} tcp SYN`)).toBe(
      `${PLACES[family].port(own, 40_000)} > ${pod(5)} tcp SYN`,
    );
    drive.putDevice({});
    expect(drive.through(`${client()} > ${vip()} tcp ACK`), 'for the life of the flow').toBe(
      `${PLACES[family].port(own, 40_000)} > ${pod(5)} tcp ACK`,
    );
    expect(drive.through(`${client(40_001)} > ${vip()} tcp SYN`)).toBe(
      `${node(40_001)} > ${pod(5)} tcp SYN`,
    );
    drive.putSettings({ nodeAddress: {} });
    expect(drive.through(`${client(40_002)} > ${vip()} tcp SYN`)).toBe('dropped');
    expect(drive.reasons()).toEqual({ DROPPED_NO_ADDRESS: 1 });
  });

  test('two frontends with one backend: the client’s port differs for the backend', () => {
    publish(drive, family, masquerade);
    drive.putFrontend({
      ...{ address: PLACES[family].vip, port: 81 },
      rules: { host: { set: drive.putSet(1, [1]) } },
    });
    expect(drive.ingress(`${client()} > ${vip(80)} tcp SYN`)).toBe(
      `${client()} > ${pod(5)} tcp SYN`,
    );
    const second = drive.ingress(`${client()} > ${vip(81)} tcp SYN`);
    const [, port = ''] = /:(\d+) > /.exec(second) ?? [];
    expect(second).toBe(`${client(Number(port))} > ${pod(5)} tcp SYN`);
    expect(Number(port)).toBeGreaterThanOrEqual(61_000);
    expect(drive.egress(`${pod(5)} > ${client(Number(port))} tcp SYN ACK`)).toBe(
      `${vip(81)} > ${client()} tcp SYN ACK`,
    );
    expect(drive.egress(`${pod(5)} > ${client()} tcp SYN ACK`)).toBe(
      `${vip(80)} > ${client()} tcp SYN ACK`,
    );
  });

  test('SCTP: addresses are rewritten, ports cannot be', () => {
    publish(drive, family, { protocol: 'SCTP', backendPort: 80, ...masquerade });
    const word = 'sctp payload=16';
    expect(drive.through(`${client()} > ${vip()} ${word}`)).toBe(
      `${node(40_000)} > ${pod(5, 80)} ${word}`,
    );
    expect(drive.through(`${pod(5, 80)} > ${node(40_000)} ${word}`)).toBe(
      `${vip()} > ${client()} ${word}`,
    );
    drive.putBackend({ id: 1, address: PLACES[family].pod(5), port: 8080 });
    expect(drive.ingress(`${client(40_001)} > ${vip()} ${word}`)).toBe('dropped');
    expect(drive.reasons()).toEqual({ DROPPED_NO_PORT: 1 });
  });

  test('UDP without a checksum keeps none', () => {
    if (family === 'IPv6') return;
    publish(drive, family, { protocol: 'UDP', ...masquerade });
    expect(drive.through(`${client()} > ${vip()} udp payload=5 nosum`)).toBe(
      `${node(40_000)} > ${pod(5)} udp payload=5 nosum`,
    );
  });

  test('what is no frontend is left, and so are other protocols', () => {
    publish(drive, family);
    const icmp = family === 'IPv4' ? 'icmp 8/0 payload=8' : 'icmp6 128/0 payload=8';
    for (const line of [
      `${client()} > ${vip(81)} tcp SYN`,
      `${client()} > ${vip()} udp payload=1`,
      `${client()} > ${pod(5)} tcp SYN`,
      `${PLACES[family].client} > ${PLACES[family].vip} ${icmp}`,
    ]) {
      expect(drive.ingress(line)).toBe(line);
      expect(drive.egress(line)).toBe(line);
    }
    expect(drive.halfOpen(family)).toEqual([]);
  });

  test('what comes by a device for a loopback address is dropped', () => {
    const loop = PLACES[family].port(family === 'IPv4' ? '127.8.0.1' : '::1', 80);
    expect(drive.ingress(`${client()} > ${loop} tcp SYN`)).toBe('dropped');
    expect(drive.reasons()).toEqual({ DROPPED_MARTIAN: 1 });
  });

  test('devices without Ethernet headers', () => {
    // A test run takes the EtherType from where a network packet has bytes 5 and 6 of its source.
    const from = PLACES[family].port(family === 'IPv4' ? '8.0.0.9' : '2001:db8:86dd::9', 40_000);
    publish(drive, family);
    expect(drive.withoutMac('fl_ingress_l3', `${from} > ${vip()} tcp SYN`)).toBe(
      `${from} > ${pod(5)} tcp SYN`,
    );
  });

  test('devices whose packets still have the headers that a tunnel put before them', () => {
    // A test run has the network header behind 14 bytes, and takes them for no headers of this device.
    publish(drive, family);
    expect(drive.behindOuter('fl_ingress_l3', `${client()} > ${vip()} tcp SYN`)).toBe(
      `${client()} > ${pod(5)} tcp SYN`,
    );
  });
});

test('before the agent has written its settings, packets are left alone and make no flows', () => {
  drive.putSettings({ secret: 0n });
  publish(drive, 'IPv4', {});
  const { client, vip } = names('IPv4');
  const packet = `${client()} > ${vip()} tcp SYN`;
  expect(drive.ingress(packet)).toBe(packet);
  drive.putSettings({});
  expect(drive.ingress(packet)).not.toBe(packet);
});
