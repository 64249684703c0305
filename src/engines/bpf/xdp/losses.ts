// SPDX-License-Identifier: Apache-2.0
// Whether a device loses so many of the frames that XDP gives it that the network stack serves better: it can wait for a driver
// whose queue is full, and XDP cannot. Pure.

/** Counters that only grow. */
export interface XdpTraffic {
  readonly sent: number;
  readonly lost: number;
}

export interface LossWindow {
  /** The counters as they are now. A text: too many are lost, and XDP should be off here. */
  add(nowMs: number, traffic: XdpTraffic): string | undefined;
}

const WINDOW_MS = 10_000;
/** A single burst into a full queue is no fault of the device. */
const FEWEST = 16;
const SHARE = 0.01;

export function createLossWindow(): LossWindow {
  let seen: { readonly atMs: number; readonly traffic: XdpTraffic }[] = [];
  return {
    add(nowMs, traffic) {
      seen.push({ atMs: nowMs, traffic });
      // The last one before the window is where it begins.
      const begin = seen.findLastIndex(({ atMs }) => atMs <= nowMs - WINDOW_MS);
      seen = seen.slice(Math.max(0, begin));
      const before = seen[0]?.traffic ?? traffic;
      const lost = traffic.lost - before.lost;
      const sent = traffic.sent - before.sent;
      if (lost < FEWEST || lost <= SHARE * (lost + sent)) return undefined;
      return `its driver lost ${lost} of ${lost + sent} frames of XDP within ${WINDOW_MS / 1000} s`;
    },
  };
}
