// SPDX-License-Identifier: Apache-2.0
// Every pinned map and the version of its layout, which is part of the pin's name: `fl_service`, later
// `fl_service_v2`, so that old and new can exist side by side. The map itself keeps its name, because the
// kernel truncates names to 15 characters.

/** Increment a map's version when a release changes the layout or the meaning of its key or value. */
const MAP_VERSIONS = {
  fl_affinity: 1,
  fl_answers: 1,
  fl_backend4: 1,
  fl_backend6: 1,
  fl_backend_node: 1,
  fl_be_flows: 1,
  fl_be_stat: 1,
  fl_cgroup_skip: 1,
  fl_client4: 4,
  fl_client6: 4,
  fl_conn4: 4,
  fl_conn6: 4,
  fl_conn_count: 1,
  fl_conn_traf4: 4,
  fl_conn_traf6: 4,
  fl_cookie: 1,
  fl_device: 2,
  fl_fe_stat: 1,
  fl_fragment: 1,
  fl_frontend: 2,
  fl_frontend4: 1,
  fl_frontend6: 1,
  fl_kept_port: 1,
  fl_local_be: 1,
  fl_mark: 3,
  fl_netns: 1,
  fl_next: 1,
  fl_node: 1,
  fl_node_addr4: 1,
  fl_node_addr6: 1,
  fl_not_service: 2,
  fl_packet: 3,
  fl_path_mtu: 1,
  fl_peer: 1,
  fl_phase: 1,
  fl_ping: 1,
  fl_range: 1,
  fl_reason: 1,
  fl_refused_sock: 1,
  fl_reply4: 4,
  fl_reply6: 4,
  fl_runtime: 2,
  fl_sent_to: 1,
  fl_service: 1,
  fl_slot_block: 1,
  fl_sock: 1,
  fl_swept: 2,
  fl_tcp_sock: 1,
  fl_traffic: 1,
  fl_turn: 1,
  fl_udp_flow: 1,
  fl_udp_sock: 1,
} as const;

export type PinnedMap = keyof typeof MAP_VERSIONS;

export type MapVersions = Readonly<Record<PinnedMap, number>>;

/** All other maps (such as .rodata) belong to one load of the programs, not to the instance. */
export const isPinnedMap = (name: string): name is PinnedMap => Object.hasOwn(MAP_VERSIONS, name);

export function mapPin(map: PinnedMap, versions: MapVersions = MAP_VERSIONS): string {
  return versions[map] === 1 ? map : `${map}_v${versions[map]}`;
}

/** undefined: not a name of one of fairlead's pins, in any version. */
export function parseMapPin(pin: string): { map: PinnedMap; version: number } | undefined {
  const [, map = '', version = '1'] = /^(fl_[a-z0-9_]+?)(?:_v([1-9]\d*))?$/.exec(pin) ?? [];
  if (!isPinnedMap(map) || pin === `${map}_v1`) return undefined;
  return { map, version: Number(version) };
}
