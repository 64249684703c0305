// SPDX-License-Identifier: Apache-2.0
// The network devices of the node as lines of `fairlead status -o wide`.
import type { DeviceView } from '../../engines/snapshot.ts';
import { aligned } from './table.ts';

/** `eth0   hardware   uplink   attached: it is up   SNAT 192.0.2.1   ingress: fl_ingress   egress: fl_egress`. */
export const deviceLines = (devices: readonly DeviceView[]): readonly string[] =>
  aligned(
    devices.map((device) => [
      device.name,
      device.kind ?? (device.name === 'lo' ? 'loopback' : 'hardware'),
      device.isAttached ? device.role : '-',
      `${device.isAttached ? 'attached' : 'not attached'}: ${device.reason}`,
      snatText(device),
      orderText('ingress', device.ingress),
      orderText('egress', device.egress),
      xdpText(device),
    ]),
  );

/** `3 of 5 attached, 1 failed`. */
export function devicesText(devices: readonly DeviceView[]): string {
  const attached = devices.filter(({ isAttached }) => isAttached).length;
  const failed = devices.filter(({ isFailed }) => isFailed).length;
  return `${attached} of ${devices.length} attached${failed === 0 ? '' : `, ${failed} failed`}`;
}

function snatText({ isAttached, snat }: DeviceView): string {
  if (!isAttached) return '';
  const addresses = Object.values(snat);
  return `SNAT ${addresses.length === 0 ? "with the node's address" : addresses.join(', ')}`;
}

/** `XDP refused: it has another XDP program (17), which stays`. */
function xdpText({ xdp }: DeviceView): string {
  if (xdp === undefined) return '';
  const lost = xdp.lost === 0 ? '' : `, ${xdp.lost} frames lost`;
  return `XDP ${xdp.state}: ${xdp.reason}${lost}`;
}

const orderText = (direction: string, programs: readonly string[]): string =>
  programs.length === 0 ? '' : `${direction}: ${programs.join(', ')}`;
