// SPDX-License-Identifier: Apache-2.0
// XDP as the agent uses it, on a pair of veth devices in a network namespace of its own: this build's programs, in native mode,
// and frames that one device sends and the other receives.

import { reasonOf } from '../../../../errors.ts';
import { readNetwork } from '../../../../sys/netlink/follow.ts';
import type { Link } from '../../../../sys/netlink/records.ts';
import { addVeth } from '../../../../sys/netlink/veth.ts';
import { CouldNotTell, type ProbeSandbox } from '../../../../sys/probe-sandbox.ts';
import { ALL_FEATURES } from '../../features.ts';
import { pinFolder } from '../../kernel/loader/pins.ts';
import { readObject, SMALL } from '../../kernel/probe/objects.ts';
import type { Trial, XdpTarget } from '../xdp-device.ts';
import { createKernelXdp } from './kernel-xdp.ts';
import { loadXdp, readObjects, XDP_PROGRAM } from './programs.ts';

const SENDER = 'probe0';
const RECEIVER = 'probe1';

/** Each device is tried as the agent tries it: with XDP on both, each has a peer that takes frames. */
export async function forwardByXdp(sandbox: ProbeSandbox): Promise<string> {
  sandbox.network();
  const bpfRoot = `${sandbox.bpfRoot()}-xdp`;
  const devices = vethPair();
  const loaded = await loadXdp({
    objects: readObjects(readObject),
    ...{ bpfRoot, sizes: SMALL, features: ALL_FEATURES, maps: new Map() },
  });
  const { verifiedInsns } = loaded.program(XDP_PROGRAM).info;
  const kernel = createKernelXdp({
    ...{ folder: pinFolder(bpfRoot).links, loaded },
    load: () => Promise.resolve(loaded),
  });
  const trials: Trial[] = [];
  try {
    for (const device of devices) trials.push(kernel.begin(device));
    const [sender, receiver] = trials;
    const { taken = 0, of = 0 } = sender?.send() ?? {};
    if (taken < of) throw new Error(`a veth device took ${taken} of ${of} frames that XDP sent`);
    if (receiver?.received() === 0) throw new Error('a veth device received no frame by XDP');
    sender?.trust();
    return `${verifiedInsns} instructions verified`;
  } finally {
    for (const trial of trials) trial.end();
    for (const { ifindex } of devices) kernel.detach(ifindex);
    kernel.close();
  }
}

/** Throws CouldNotTell. */
function vethPair(): readonly XdpTarget[] {
  try {
    addVeth(SENDER, RECEIVER);
  } catch (error) {
    throw new CouldNotTell(`a pair of veth devices: ${reasonOf(error)}`);
  }
  const links = [...readNetwork().links.values()];
  return [SENDER, RECEIVER].map((name) => targetOf(links.find((link) => link.name === name)));
}

function targetOf(link: Link | undefined): XdpTarget {
  const { ifindex, name, mac } = link ?? {};
  if (ifindex === undefined || name === undefined || mac === undefined) {
    throw new CouldNotTell('a pair of veth devices was made, and is not there');
  }
  return { ifindex, name, mac, use: 'both', ports: [] };
}
