// SPDX-License-Identifier: Apache-2.0
// A separate copy of the packet programs and their maps: packets in and out as text.

import { connRodata, connSizes } from '../../../../../src/engines/bpf/conn/sizes.ts';
import { readReasons } from '../../../../../src/engines/bpf/kernel/maps/counters.ts';
import { arrayTable } from '../../../../../src/engines/bpf/kernel/maps/kernel.ts';
import { DEFAULT_SETTINGS } from '../../../../../src/engines/bpf/kernel/packet/settings.ts';
import { phaseOf, TICKS_PER_SECOND } from '../../../../../src/engines/bpf/layout/conn-layout.ts';
import {
  EMPTY_SET,
  encodeFrontend,
  encodeFrontendKey,
  encodeU32,
} from '../../../../../src/engines/bpf/layout/layout.ts';
import {
  type DeviceValue,
  encodeDevice,
  encodePacketSettings,
  type PacketSettings,
} from '../../../../../src/engines/bpf/layout/packet-layout.ts';
import { DEFAULT_TIMES, flowTimeouts } from '../../../../../src/engines/bpf/rows/timeouts.ts';
import { writeKeptPorts } from '../../../../../src/engines/bpf/snat/ports.ts';
import type { Family } from '../../../../../src/model/types.ts';
import { kernelStructs } from '../../../../../src/sys/btf/structs.ts';
import type { BpfProgram } from '../../../../../src/sys/native.ts';
import {
  type ConnText,
  connsOf,
  editConns,
  endConns,
} from '../../../../support/dataplane/conn-text.ts';
import { buildFrame, buildNetworkPacket } from '../../../../support/packets/build.ts';
import { describeFrame, describeNetworkPacket } from '../../../../support/packets/describe.ts';
import { Drive, familyOf, PLAIN_RULE, packetObject } from '../../support/drive.ts';
import { XDP, XdpDrive } from './xdp-drive.ts';

/** Actions of tc as text; a packet that is left, changed or not, goes on through the stack. */
const ACTIONS: Readonly<Record<number, string>> = {
  [0xffffffff]: '',
  2: 'dropped',
  7: 'sent back: ',
};
const SENT_BACK = 7;

export const SETTINGS: PacketSettings = {
  ...DEFAULT_SETTINGS,
  timeoutSeconds: flowTimeouts(DEFAULT_TIMES),
  secret: 0x0123456789abcdefn,
  snatPorts: { first: 61_000, last: 65_535 },
  localPorts: { first: 1, last: 0 }, // none
  nodeAddress: { IPv4: '192.0.2.11', IPv6: '2001:db8::11' },
  resetGone: false,
  resetUnknownFrom: 0,
  answerPing: false,
  leaveNew: false,
};

/**
 * Tests of tc play their packets with the program at XDP before it, in the namespace of uplinks.ts, where this says so: `left`, it may send to no device
 * and leaves all; `sent`, it sends what it can; `direct`, and what it sends would have gone on by the stack, too: neither in Geneve nor dropped.
 */
export const XDP_FIRST = process.env['FAIRLEAD_XDP_FIRST'];

export interface LoadSettings {
  /** Of the table of connections. */
  readonly buckets?: number;
  readonly canReadKernel?: boolean;
  /** By a function of the kernel, if it has that. */
  readonly canCast?: boolean;
  /** Those for devices without Ethernet headers, too: they are the others once more, and take as long to verify. */
  readonly withoutMac?: boolean;
}

const WITHOUT_MAC = ['fl_ingress_l3', 'fl_egress_l3'];

/** Frontend id that no other frontend of a test has. */
const WILDCARD = 4000;

/** Buckets of the table of connections, of each family. */
const BUCKETS = 2048;

type DeviceFlags = Partial<
  Pick<DeviceValue, 'isPod' | 'leadsToPod' | 'dropsOthers' | 'isUplink' | 'isTunnel'>
>;

/** The loopback device, which test runs say that packets come by. */
export const TEST_DEVICE = 1;

export class PacketDrive extends Drive {
  readonly #programs = new Map<string, BpfProgram>();
  readonly #xdp: XdpDrive | undefined;
  /** Descriptor of the network namespace that packets come in by; undefined: this process's. */
  netns: number | undefined;

  constructor(
    settings: Partial<PacketSettings> = {},
    sizes: Readonly<Record<string, number>> = {},
    {
      buckets = BUCKETS,
      canReadKernel = true,
      canCast = canReadKernel,
      withoutMac = false,
    }: LoadSettings = {},
  ) {
    const all = { ...connSizes(buckets), ...sizes };
    const { ipSummedAt, castFunction } = kernelStructs();
    super(all, packetObject, {
      rodata: {
        ...connRodata(all),
        ip_summed_at: encodeU32(canReadKernel ? ipSummedAt : 0),
        cast_function: encodeU32(canCast ? castFunction : 0),
      },
      leftOut: withoutMac ? [] : WITHOUT_MAC,
    });
    this.#xdp = XDP_FIRST === undefined ? undefined : new XdpDrive(this.object);
    this.putSettings(settings);
  }

  override close(): void {
    this.#xdp?.close();
    super.close();
  }

  putSettings(settings: Partial<PacketSettings>): void {
    const value = encodePacketSettings({ ...SETTINGS, ...settings });
    this.object.map('fl_packet').put(encodeU32(0), value);
    this.#xdp?.putDevices({ areTargets: XDP_FIRST !== 'left' });
  }

  /** Ports that the node keeps, as the only ones. */
  keepPorts(...ports: readonly number[]): void {
    const ranges = ports.map((port) => ({ first: port, last: port }));
    writeKeptPorts(arrayTable(this.object.map('fl_kept_port')), ranges);
  }

  putDevice(
    snat: Partial<Record<Family, string>>,
    {
      isPod = false,
      leadsToPod = isPod,
      dropsOthers = false,
      isUplink = false,
      isTunnel = false,
    }: DeviceFlags = {},
  ): void {
    const value = encodeDevice({
      ...{ ifindex: TEST_DEVICE, snat, isPod, leadsToPod, dropsOthers, isUplink, isTunnel },
      ...{ takesFrames: false, mac: undefined },
    });
    this.object.map('fl_device').put(encodeU32(TEST_DEVICE), value);
    this.#xdp?.putDevices({ snat, isPod, areTargets: XDP_FIRST !== 'left' });
  }

  /** The address refuses every port that has no frontend of its own. */
  putWildcard(address: string): void {
    const family = familyOf(address);
    const key = { family, address, port: undefined, protocol: undefined };
    const rule = { ...EMPTY_SET, ...PLAIN_RULE };
    const rules = { unknown: rule, host: rule, pod: rule, outside: rule };
    const value = encodeFrontend({ key, rules, serviceId: 1, affinitySeconds: 0 });
    this.object.map('fl_frontend').put(encodeU32(WILDCARD), value);
    const ids = this.object.map(family === 'IPv4' ? 'fl_frontend4' : 'fl_frontend6');
    ids.put(encodeFrontendKey(key), encodeU32(WILDCARD));
  }

  private program(name: string): BpfProgram {
    const known = this.#programs.get(name) ?? this.object.program(name);
    this.#programs.set(name, known);
    return known;
  }

  /** Raw: the program's return value and the packet after it. */
  run(program: string, frame: Uint8Array): { readonly action: number; readonly frame: Uint8Array } {
    const isSent = XDP_FIRST === 'direct' && program === 'fl_ingress' && this.isSent(frame);
    const where = this.netns === undefined ? {} : { netns: this.netns };
    const { retval, dataOut } = this.program(program).testRun({ dataIn: frame, ...where });
    if (isSent && ACTIONS[retval] !== '') throw new Error(`sent: ${describeFrame(frame)}`);
    return { action: retval, frame: dataOut };
  }

  private show(program: string, line: string): string {
    const { action, frame } = this.run(program, buildFrame(line));
    // With XDP first a request and its answer have other devices: the answer goes back to the one of the request.
    const goesBack =
      XDP_FIRST !== undefined && program.startsWith('fl_egress') && action === SENT_BACK;
    const name = goesBack ? '' : (ACTIONS[action] ?? `action ${action}: `);
    return name === 'dropped' ? name : `${name}${describeFrame(frame)}`;
  }

  /** A network packet without an Ethernet header. */
  withoutMac(program: string, line: string): string {
    const { action, frame } = this.run(program, buildNetworkPacket(line));
    return `${ACTIONS[action] ?? `action ${action}: `}${describeNetworkPacket(frame)}`;
  }

  /** The packet with what only looks like a header before it. */
  behindOuter(program: string, line: string): string {
    const { action, frame } = this.run(program, buildFrame(line));
    return `${ACTIONS[action] ?? `action ${action}: `}${describeFrame(frame)}`;
  }

  /** By XDP. If not, it is as it came. */
  private isSent(before: Uint8Array): boolean {
    const { action, frame } = this.#xdp?.run(before) ?? { action: XDP.pass, frame: before };
    if (action === XDP.redirect) return true;
    if (action === XDP.pass && Buffer.compare(before, frame) === 0) return false;
    throw new Error(`neither sent nor left: ${describeFrame(before)}`);
  }

  /** undefined: it is left, as it came. */
  private atXdp(line: string): string | undefined {
    const before = buildFrame(line);
    const { action, frame } = this.#xdp?.run(before) ?? { action: XDP.pass, frame: before };
    if (action === XDP.drop) return 'dropped';
    if (action === XDP.tx || action === XDP.redirect)
      return describeFrame(frame).replace(' ttl=63', '');
    if (Buffer.compare(before, frame) !== 0) throw new Error(`changed, and left: ${line}`);
    return undefined;
  }

  ingress = (line: string): string => {
    if (XDP_FIRST === 'left' && this.atXdp(line) !== undefined) throw new Error(`sent: ${line}`);
    return this.show('fl_ingress', line);
  };
  egress = (line: string): string => this.show('fl_egress', line);
  /** As it leaves after it came in; of a packet that goes no further, what became of it. */
  through = (line: string): string => {
    const sent = XDP_FIRST === 'sent' ? this.atXdp(line) : undefined;
    if (sent !== undefined) return sent;
    const inside = this.ingress(line);
    return inside.includes('dropped') || inside.startsWith('sent') ? inside : this.egress(inside);
  };

  /** Connections, in the order of the table. */
  conns = (family: Family = 'IPv4'): readonly ConnText[] => connsOf(this.object, family);
  confirmed = (family: Family = 'IPv4'): readonly ConnText[] =>
    this.conns(family).filter(({ isHalfOpen }) => !isHalfOpen);
  halfOpen = (family: Family = 'IPv4'): readonly ConnText[] =>
    this.conns(family).filter(({ isHalfOpen }) => isHalfOpen);

  /** What people are told of their states, sorted. */
  phases = (family: Family = 'IPv4'): readonly string[] =>
    this.conns(family)
      .map(({ state }) => phaseOf(state))
      .toSorted();

  /** Nothing has been sent for so much longer. */
  age(seconds: number, family: Family = 'IPv4', isMeant: (conn: ConnText) => boolean = () => true) {
    const meant = new Set(
      this.conns(family)
        .filter(isMeant)
        .map(({ index }) => index),
    );
    editConns(this.object, family, (words, { index }) => {
      if (meant.has(index)) words[4] = (words[4] ?? 0) - seconds * TICKS_PER_SECOND;
    });
  }

  clearMarks = (): void => void new Uint8Array(this.object.map('fl_mark').mmap()).fill(0);

  /** Takes all connections out of the table, as eviction does. */
  forgetConns = (family: Family = 'IPv4'): void => endConns(this.object, family);

  /** Changes the bytes of every value of a table. */
  edit(map: string, change: (value: Uint8Array) => void): void {
    const table = this.object.map(map);
    const { keys, values, count } = table.readAll();
    const { keySize, valueSize } = table.info;
    for (let i = 0; i < count; i++) {
      const value = values.slice(i * valueSize, (i + 1) * valueSize);
      change(value);
      table.put(keys.slice(i * keySize, (i + 1) * keySize), value);
    }
  }

  /** Reasons that were counted, without those of ordinary traffic. */
  reasons(withXdp = false): Readonly<Record<string, number>> {
    const all = Object.entries(readReasons(this.object.map('fl_reason')));
    const isShown = (name: string): boolean =>
      name !== 'NOT_A_FRONTEND' &&
      name !== 'TRANSLATED' &&
      (withXdp || !name.startsWith('XDP_')) &&
      (XDP_FIRST === undefined || name !== 'ANSWER_SENT_BACK');
    return Object.fromEntries(all.filter(([name, n]) => n > 0 && isShown(name)));
  }
}
