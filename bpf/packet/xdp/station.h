/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Whether a frame is for the device that it comes in by. */
#ifndef FAIRLEAD_STATION_H
#define FAIRLEAD_STATION_H

#include "packet/xdp/frame.h"
#include "packet/xdp/known.h"
#include "packet/xdp/vlan.h"

static __always_inline const struct device *find_device(__u32 ifindex)
{
	const struct device *device = bpf_map_lookup_elem(&fl_device, &ifindex);

	return device && device->ifindex == ifindex ? device : NULL;
}

/* Without an entry it has no address. Its frames may be those of a bond. */
__noinline int fl_read_station(void)
{
	struct packet *p = this_packet();
	struct known *k = known();
	struct station station = {};
	const struct device *device;

	if (!p || !k)
		return 0;
	station.second = p->now;
	station.ifindex = p->came_by;
	device = find_device(p->came_by);
	if (!device) {
		find_bond(p);
		device = find_device(p->came_by);
	}
	station.came_by = p->came_by;
	if (device)
		__builtin_memcpy(station.mac, device->mac, sizeof(station.mac));
	k->station[station.ifindex & (STATIONS - 1)] = station;
	return 0;
}

static __always_inline const struct station *station_of(const struct packet *p)
{
	struct known *k = known();
	const struct station *station;

	if (!k)
		return NULL;
	station = &k->station[p->came_by & (STATIONS - 1)];
	if (station->ifindex != p->came_by || station->second != p->now)
		fl_read_station();
	return station;
}

/* Frames for other stations come in, too: from switches, to devices that listen to all. */
static __always_inline bool is_for_device(struct xdp_md *ctx, struct packet *p)
{
	const struct station *station = station_of(p);
	const struct ethhdr *eth = (const void *)(long)ctx->data;
	struct mac to, own;

	if (!station || ends_before(ctx, eth + 1))
		return false;
	p->came_by = station->came_by;
	to = read_mac(eth->h_dest);
	own = read_mac(station->mac);
	return (own.first | own.last) && own.first == to.first && own.last == to.last;
}

#endif
