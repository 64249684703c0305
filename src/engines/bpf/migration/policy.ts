// SPDX-License-Identifier: Apache-2.0
// What becomes of the entries of a map that gets another layout or another size. ADR 30 has the table.
import type { PinnedMap } from '../layout/versions.ts';

export type Carrying =
  /** Written by the agent alone: converted once, before the programs are replaced. */
  | 'agent'
  /** Written by the programs of sockets, or by `fairlead bypass`: converted, and what changed meanwhile once more. */
  | 'sockets'
  /** Written by the packet programs: the same. No connection begins between the two. */
  | 'flows'
  /** The table of connections: each record is put into the other one, by a program. */
  | 'table'
  /** Counters: added up after the programs were replaced. */
  | 'counters'
  /** Kept in the socket itself: converted by a program that walks the sockets. */
  | 'storage'
  /** Begins empty: the agent fills it again, or nothing that lasts is in it. */
  | 'empty'
  /** Each generation has its own, which begins empty: it says what becomes of that generation's connections. */
  | 'own';

export const CARRYING: Readonly<Record<PinnedMap, Carrying>> = {
  fl_affinity: 'sockets',
  fl_answers: 'empty',
  fl_backend4: 'agent',
  fl_backend6: 'agent',
  fl_backend_node: 'agent',
  fl_be_flows: 'empty',
  fl_be_stat: 'counters',
  fl_cgroup_skip: 'sockets',
  fl_client4: 'table',
  fl_client6: 'table',
  fl_conn4: 'table',
  fl_conn6: 'table',
  fl_conn_count: 'counters',
  fl_conn_traf4: 'table',
  fl_conn_traf6: 'table',
  fl_cookie: 'agent',
  fl_device: 'agent',
  fl_fe_stat: 'counters',
  fl_fragment: 'flows',
  fl_frontend: 'agent',
  fl_frontend4: 'agent',
  fl_frontend6: 'agent',
  fl_kept_port: 'agent',
  fl_local_be: 'agent',
  fl_mark: 'empty',
  fl_netns: 'empty',
  fl_next: 'own',
  fl_node: 'agent',
  fl_node_addr4: 'agent',
  fl_node_addr6: 'agent',
  fl_not_service: 'empty',
  fl_packet: 'agent',
  fl_path_mtu: 'empty',
  fl_peer: 'agent',
  fl_phase: 'own',
  fl_ping: 'agent',
  fl_range: 'agent',
  fl_reason: 'counters',
  fl_refused_sock: 'agent',
  fl_reply4: 'table',
  fl_reply6: 'table',
  fl_runtime: 'agent',
  fl_sent_to: 'empty',
  fl_service: 'agent',
  fl_slot_block: 'agent',
  fl_sock: 'storage',
  fl_swept: 'empty',
  fl_tcp_sock: 'sockets',
  fl_traffic: 'counters',
  fl_turn: 'empty',
  fl_udp_flow: 'sockets',
  fl_udp_sock: 'storage',
};
