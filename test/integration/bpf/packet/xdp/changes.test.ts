// SPDX-License-Identifier: Apache-2.0
// Routes, neighbours and devices that change: XDP follows within a second, whatever it knows.
import { afterAll, beforeEach, describe, expect, test } from 'vitest';
import { FAMILIES } from '../../../../../src/model/types.ts';
import { until } from '../../../../support/until.ts';
import { sharedDrive } from '../support/shared-drive.ts';
import { names, PLACES, publish } from '../support/stage.ts';
import { enterUplinks, NEIGHBOUR_MAC, SECOND, UPLINK } from '../support/uplinks.ts';
import {
  changesOfNetwork,
  FIRST_WAY,
  ruleLines,
  SECOND_WAY,
  stayOnOneCpu,
  VIA,
  wayOf,
} from '../support/ways.ts';
import { XdpDrive } from '../support/xdp-drive.ts';

enterUplinks('each');
stayOnOneCpu();
const drive = sharedDrive();
const xdp = new XdpDrive(drive.object);
const change = changesOfNetwork();
beforeEach(() => xdp.putDevices());
afterAll(() => xdp.close());

/** A second, and what a busy machine takes. */
const SOON_MS = 1_500;

describe.each(FAMILIES)('%s', (family) => {
  const { client, vip } = names(family);
  const at = PLACES[family];
  const { first, second } = VIA[family];
  const question = `${client()} > ${vip()} udp payload=5`;
  const serve = (n: number): void =>
    publish(drive, family, { protocol: 'UDP', backends: [{ address: at.pod(n) }] });

  async function follows(wanted: string, packet = question): Promise<void> {
    const began = performance.now();
    await until(() => wayOf(xdp, packet) === wanted, `frames to go: ${wanted}`);
    expect(performance.now() - began).toBeLessThan(SOON_MS);
  }

  test('a route that is replaced', async () => {
    serve(5);
    expect(wayOf(xdp, question)).toBe(FIRST_WAY);
    change(`route replace ${at.pod(5)} via ${second}`, `route replace ${at.pod(5)} via ${first}`);
    await follows(SECOND_WAY);
  });

  test('a route that is deleted', async () => {
    serve(6);
    expect(wayOf(xdp, question)).toBe(SECOND_WAY);
    change(`route del ${at.pod(6)}`, `route add ${at.pod(6)} via ${second}`);
    await follows('left');
  });

  test('a rule that is added', async () => {
    serve(5);
    expect(wayOf(xdp, question)).toBe(FIRST_WAY);
    for (const [line, undo] of ruleLines(family, `to ${at.pod(5)}`)) change(line, undo);
    await follows(SECOND_WAY);
  });

  test('an MTU that becomes smaller', async () => {
    serve(6);
    const large = `${client()} > ${vip()} udp payload=1400`;
    expect(wayOf(xdp, large)).toBe(SECOND_WAY);
    change(`link set ${SECOND.name} mtu 1400`, `link set ${SECOND.name} mtu 1500`);
    await follows('left', large);
    await follows(SECOND_WAY);
  });

  test('a neighbour with another address', async () => {
    serve(5);
    expect(wayOf(xdp, question)).toBe(FIRST_WAY);
    const neighbour = (mac: string): string =>
      `neigh replace ${first} lladdr ${mac} dev ${UPLINK.name} nud permanent`;
    change(neighbour('02:00:00:00:00:77'), neighbour(NEIGHBOUR_MAC));
    await follows(`${UPLINK.mac} > 02:00:00:00:00:77`);
  });

  test('a device that goes down, and comes up again', async () => {
    serve(6);
    expect(wayOf(xdp, question)).toBe(SECOND_WAY);
    const device = SECOND.name;
    change(`link set ${device} down`);
    await follows('left');
    change(`link set ${device} up`);
    change(`-6 addr replace fd00:20::1/64 dev ${device} nodad`);
    for (const one of FAMILIES) {
      const via = VIA[one].second;
      change(`neigh replace ${via} lladdr ${NEIGHBOUR_MAC} dev ${device} nud permanent`);
      change(`route replace ${PLACES[one].pod(6)} via ${via}`);
    }
    await follows(SECOND_WAY);
  });

  test('a device that is no longer trusted', async () => {
    serve(5);
    expect(wayOf(xdp, question)).toBe(FIRST_WAY);
    xdp.putDevices({ areTargets: false, isNextSecond: false });
    await follows('left');
  });

  test('a device that gets another address', async () => {
    serve(5);
    expect(wayOf(xdp, question)).toBe(FIRST_WAY);
    xdp.putDevices({ mac: '02:00:00:00:00:78', isNextSecond: false });
    await follows('left');
  });
});
