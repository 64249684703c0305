// SPDX-License-Identifier: Apache-2.0
// Rules as text, as iptables-save prints them once the kernel has them, so that comparing what is held with what is
// wanted is a comparison of text; iptables-restore reads the same text. Shown by print.test.ts of the stage netns, for
// iptables-nft and iptables-legacy 1.8.9, which print alike.
//   -d 10.96.0.10/32 -p tcp -m comment --comment "default/web:http cluster IP" -m tcp --dport 80 -j KUBE-SVC-...
import type { Family } from '../../../model/types.ts';
import type { Prefix, Recent, Rule, Target } from './types.ts';

/** XT_MAX_COMMENT_LEN, less the zero byte. */
const MAX_COMMENT_LENGTH = 255;

// Each part begins with a blank, and is added to the others: lists of words take three times as long, half a second of the
// first sync of 1,000 Services.

/** What follows `-A CHAIN `: of `-m`, first the comment. */
export const printRule = (rule: Rule, family: Family): string =>
  (
    header(rule) +
    comment(rule.comment) +
    matches(rule, family) +
    target(rule.target, family)
  ).slice(1);

/** Like printRule, but kube-proxy has the comment of a jump after its connection states. */
export const printJumpRule = ({ comment: text, states, ...rest }: Rule, family: Family): string =>
  (
    header(rest) +
    connectionStates(states) +
    comment(text) +
    matches(rest, family) +
    target(rest.target, family)
  ).slice(1);

/** What every packet has, in the order of iptables-save, wherever the options stood. */
const header = ({ source, destination, inInterface, protocol }: Rule): string =>
  (source === undefined ? '' : prefix('-s', source)) +
  (destination === undefined ? '' : prefix('-d', destination)) +
  (inInterface === undefined ? '' : `${not(inInterface)} -i ${inInterface.name}`) +
  (protocol === undefined ? '' : ` -p ${protocol.toLowerCase()}`);

const not = (match: { readonly not?: true }): string => (match.not ? ' !' : '');

/** A prefix that everything is in is not printed. */
const prefix = (option: string, match: Prefix): string =>
  match.prefix.endsWith('/0') && !match.not ? '' : `${not(match)} ${option} ${match.prefix}`;

const comment = (text: Rule['comment']): string =>
  text === undefined ? '' : ` -m comment --comment ${quoted(text.slice(0, MAX_COMMENT_LENGTH))}`;

/** As xtables_save_string does. */
const quoted = (text: string): string =>
  /^[-_0-9A-Za-z]+$/.test(text) ? text : `"${text.replace(/["\\']/g, '\\$&')}"`;

/** In the order in which kube-proxy writes them. */
function matches(rule: Rule, family: Family): string {
  const { other, mark, probability, recent, accounting } = rule;
  return (
    (other === undefined ? '' : ` ${other}`) +
    (rule.isSourceLocal ? ' -m addrtype --src-type LOCAL' : '') +
    (rule.isDestinationLocal ? ' -m addrtype --dst-type LOCAL' : '') +
    (recent === undefined ? '' : recentMatch(recent, family)) +
    (probability === undefined ? '' : statistic(probability)) +
    (mark === undefined ? '' : ` -m mark${not(mark)} --mark ${masked(mark)}`) +
    connectionStates(rule.states) +
    protocolMatch(rule) +
    // Two blanks before the name, as its extension prints them.
    (accounting === undefined ? '' : ` -m nfacct --nfacct-name  ${accounting}`)
  );
}

const connectionStates = (states: Rule['states']): string =>
  states === undefined ? '' : ` -m conntrack${not(states)} --ctstate ${states.any.join(',')}`;

function protocolMatch({ protocol, destinationPort }: Rule): string {
  if (protocol === undefined) return '';
  const port = destinationPort === undefined ? '' : ` --dport ${destinationPort}`;
  return ` -m ${protocol.toLowerCase()}${port}`;
}

const WHOLE_ADDRESS: Readonly<Record<Family, string>> = {
  IPv4: '255.255.255.255',
  IPv6: 'ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff',
};

function recentMatch({ list, action }: Recent, family: Family): string {
  const what = action.kind === 'set' ? '--set' : `--rcheck --seconds ${action.seconds} --reap`;
  return ` -m recent ${what} --name ${list} --mask ${WHOLE_ADDRESS[family]} --rsource`;
}

/** The kernel has the probability as a fraction of 2^31. */
const PROBABILITY_UNIT = 2 ** 31;

function statistic(probability: number): string {
  const kept = Math.round(probability * PROBABILITY_UNIT) / PROBABILITY_UNIT;
  return ` -m statistic --mode random --probability ${kept.toFixed(11)}`;
}

const masked = ({ value, mask }: { readonly value: number; readonly mask: number }): string =>
  `0x${value.toString(16)}/0x${mask.toString(16)}`;

const REFUSAL: Readonly<Record<Family, string>> = {
  IPv4: 'icmp-port-unreachable',
  IPv6: 'icmp6-port-unreachable',
};

function target(what: Target | undefined, family: Family): string {
  switch (what?.kind) {
    case undefined:
      return '';
    case 'jump':
      return ` -j ${what.chain}`;
    case 'reject':
      return ` -j REJECT --reject-with ${REFUSAL[family]}`;
    case 'dnat':
      return ` -j DNAT --to-destination ${what.to}`;
    case 'masquerade':
      return ` -j MASQUERADE${what.isRandomFully ? ' --random-fully' : ''}`;
    case 'set-mark':
      return ` -j MARK --set-xmark ${masked(what)}`;
  }
}
