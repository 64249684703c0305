// SPDX-License-Identifier: Apache-2.0
// What becomes of the entries of a map that gets another layout or another size. ADR 30 has the table.
import type { PinnedMap } from '../versions.ts';

export type Carrying =
  /** Written by the agent alone: converted once, before the programs are replaced. */
  | 'agent'
  /** Written by the programs of sockets, or by `fairlead bypass`: converted, and what changed meanwhile once more. */
  | 'sockets'
  /** Written by the packet programs: the same. No flow begins between the two. */
  | 'flows'
  /** Counters: added up after the programs were replaced. */
  | 'counters'
  /** Kept in the socket itself: converted by a program that walks the sockets. */
  | 'storage'
  /** Begins empty: the agent fills it again, or nothing that lasts is in it. */
  | 'empty';

export const CARRYING: Readonly<Record<PinnedMap, Carrying>> = {
  fl_affinity: 'sockets',
  fl_answers: 'empty',
  fl_backend4: 'agent',
  fl_backend6: 'agent',
  fl_backend_node: 'agent',
  fl_be_flows: 'empty',
  fl_be_stat: 'counters',
  fl_cgroup_skip: 'sockets',
  fl_cookie: 'agent',
  fl_device: 'agent',
  fl_fe_stat: 'counters',
  fl_flow4: 'flows',
  fl_flow6: 'flows',
  fl_fragment: 'flows',
  fl_frontend4: 'agent',
  fl_frontend6: 'agent',
  fl_frontend: 'agent',
  fl_kept_port: 'agent',
  fl_local_be: 'agent',
  fl_mark: 'empty',
  fl_nat4: 'flows',
  fl_nat6: 'flows',
  fl_netns: 'empty',
  fl_new_flow4: 'flows',
  fl_new_flow6: 'flows',
  fl_new_nat4: 'flows',
  fl_new_nat6: 'flows',
  fl_new_snat4: 'flows',
  fl_new_snat6: 'flows',
  fl_node: 'agent',
  fl_node_addr4: 'agent',
  fl_node_addr6: 'agent',
  fl_not_service: 'empty',
  fl_packet: 'agent',
  fl_path_mtu: 'empty',
  fl_peer: 'agent',
  fl_ping: 'agent',
  fl_range: 'agent',
  fl_reason: 'counters',
  fl_refused_sock: 'agent',
  fl_runtime: 'agent',
  fl_sent_to: 'empty',
  fl_service: 'agent',
  fl_slot_block: 'agent',
  fl_snat4: 'flows',
  fl_snat6: 'flows',
  fl_sock: 'storage',
  fl_swept: 'empty',
  fl_tcp_sock: 'sockets',
  fl_traffic: 'counters',
  fl_turn: 'empty',
  fl_udp_flow: 'sockets',
  fl_udp_sock: 'storage',
};
