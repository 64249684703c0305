// SPDX-License-Identifier: Apache-2.0
// Does a rule match a packet? As a probability, because of xt_statistic.
import type { Prefix, Rule } from '../../../src/engines/iptables/rules/types.ts';
import { prefixContains } from '../../../src/lib/ip.ts';
import type { TracedPacket, World } from './packet.ts';

/** 0 = it does not; 1 = it does; between them: it does in this share of all cases. */
export function matchProbability(rule: Rule, packet: TracedPacket, world: World): number {
  if (rule.other !== undefined) throw new Error(`no rule of ours has ${rule.other}`);
  const isMatched =
    isIn(rule.source, packet.source) &&
    isIn(rule.destination, packet.destination) &&
    isInterface(rule.inInterface, packet.inInterface ?? '') &&
    (rule.protocol === undefined || rule.protocol === packet.protocol) &&
    isPort(rule, packet) &&
    (rule.isSourceLocal === undefined || world.isLocal(packet.source)) &&
    (rule.isDestinationLocal === undefined || world.isLocal(packet.destination)) &&
    isState(rule.states, packet) &&
    isMark(rule.mark, packet.mark) &&
    isRecent(rule.recent, packet.source, world);
  return isMatched ? (rule.probability ?? 1) : 0;
}

function isIn(wanted: Prefix | undefined, address: string): boolean {
  if (wanted === undefined) return true;
  return contains(wanted.prefix, address) !== (wanted.not === true);
}

/** By `prefix address`: parsing addresses takes most of the time of tracing a thousand plans. */
const KNOWN = new Map<string, boolean>();

function contains(prefix: string, address: string): boolean {
  const key = `${prefix} ${address}`;
  const known = KNOWN.get(key) ?? prefixContains(prefix, address);
  KNOWN.set(key, known);
  return known;
}

/** What the node sends itself comes from no interface: it matches no name but `+`, and every `! -i name`. */
function isInterface(wanted: Rule['inInterface'], name: string): boolean {
  if (wanted === undefined) return true;
  const isNamed = wanted.name.endsWith('+')
    ? name.startsWith(wanted.name.slice(0, -1))
    : name === wanted.name;
  return isNamed !== (wanted.not === true);
}

function isPort({ destinationPort, protocol }: Rule, packet: TracedPacket): boolean {
  if (destinationPort === undefined) return true;
  if (protocol === undefined) throw new Error('--dport without a protocol');
  return destinationPort === packet.destinationPort;
}

/** xt_conntrack: DNAT is set beside the state of the packet; without a connection there is only INVALID. */
function isState(wanted: Rule['states'], packet: TracedPacket): boolean {
  if (wanted === undefined) return true;
  const { state, isDnat, isUnchanged } = packet;
  const hasDnat = isDnat && isUnchanged !== true;
  const isOne =
    wanted.any.includes(state) || (hasDnat && state !== 'INVALID' && wanted.any.includes('DNAT'));
  return isOne !== (wanted.not === true);
}

function isMark(wanted: Rule['mark'], mark: number): boolean {
  if (wanted === undefined) return true;
  return ((mark & wanted.mask) >>> 0 === wanted.value >>> 0) !== (wanted.not === true);
}

/** --set matches always, and remembers the client. */
function isRecent(wanted: Rule['recent'], source: string, world: World): boolean {
  if (wanted === undefined || wanted.action.kind === 'set') return true;
  return world.isRecent(wanted.list, source, wanted.action.seconds);
}
