// SPDX-License-Identifier: Apache-2.0
// The stations that frames of XDP are sent to, in the namespace of uplinks.ts, and changes of it that are undone.
import { afterEach } from 'vitest';
import type { Family } from '../../../../../src/model/types.ts';
import { runSync } from '../../../../../src/sys/exec.ts';
import { buildFrame } from '../../../../support/packets/build.ts';
import { PLACES } from './stage.ts';
import { ip, NEIGHBOUR_MAC, SECOND, UPLINK } from './uplinks.ts';
import { XDP, type XdpDrive } from './xdp-drive.ts';

export const FIRST_WAY = `${UPLINK.mac} > ${NEIGHBOUR_MAC}`;
export const SECOND_WAY = `${SECOND.mac} > ${NEIGHBOUR_MAC}`;
/** Stations beyond the uplinks. */
export const VIA = {
  IPv4: { first: '192.0.2.12', second: '172.20.0.2' },
  IPv6: { first: '2001:db8::12', second: 'fd00:20::2' },
} as const;

/** `left`, or the ends of the frame that is sent. */
export function wayOf(xdp: XdpDrive, line: string | Uint8Array): string {
  const { action, frame } = xdp.run(typeof line === 'string' ? buildFrame(line) : line);
  if (action === XDP.pass) return 'left';
  if (action !== XDP.redirect) return `action ${action}`;
  const mac = (at: number): string =>
    [...frame.subarray(at, at + 6)].map((byte) => byte.toString(16).padStart(2, '0')).join(':');
  return `${mac(6)} > ${mac(0)}`;
}

/** What a CPU knows no other one does: this process stays where it is. */
export function stayOnOneCpu(): void {
  const { code, stderr } = runSync('taskset', ['-p', '1', String(process.pid)]);
  if (code !== 0) throw new Error(`taskset: ${stderr}`);
}

const second = (): bigint => process.hrtime.bigint() / 1_000_000_000n;

/** Plays all of it in one second of the kernel's clock: again, if that has ended meanwhile. */
export function inOneSecond(xdp: XdpDrive, play: () => void): void {
  for (;;) {
    xdp.nextSecond();
    const began = second();
    try {
      play();
      if (second() === began) return;
    } catch (error) {
      if (second() === began) throw error;
    }
  }
}

/** Lines for ip(8), and those that undo them after the test, in this order. */
export function changesOfNetwork(): (line: string, ...undo: readonly string[]) => void {
  const undoing: string[] = [];
  afterEach(() => {
    for (const line of undoing.splice(0)) ip(line);
  });
  return (line, ...undo) => {
    ip(line);
    undoing.push(...undo);
  };
}

/** The way to pod 5 by the second uplink, for what this rule is about. */
export const ruleLines = (family: Family, what: string): readonly (readonly [string, string])[] => {
  const option = family === 'IPv4' ? '-4' : '-6';
  const route = `${PLACES[family].pod(5)} via ${VIA[family].second} table 77`;
  const rule = `${what} lookup 77 pref 100`;
  return [
    [`${option} route replace ${route}`, `${option} route flush table 77`],
    [`${option} rule add ${rule}`, `${option} rule del ${rule}`],
  ];
};
