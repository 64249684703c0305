// SPDX-License-Identifier: Apache-2.0
// Changes the only endpoint of the probe Services from one real backend to the other and back, and measures the
// latency of each change: from the API server's response to the start of the first connection that reached the
// new backend. The prober starts connecting before the change is sent, so that no early effect is missed.

import { letPass, monotonicMs } from '../clock.ts';
import type { RunningProxy } from '../proxies/proxy.ts';
import type { ChurnFigures, Figures, Latencies } from '../report/figures.ts';
import { mergeLatencies } from '../report/merge.ts';
import { ENDPOINTS_EACH, type Site } from '../site.ts';
import type { ChurnReport } from './changes.ts';
import { CHANGES_PER_SECOND, PATIENCE_MS, type Pace } from './pace.ts';
import { NotReached, type Prober, type Reached } from './prober.ts';

const EFFECT_TIMEOUT_MS = 120_000;
const WARM_UP_MS = 2_000;

/** Sends the change; resolves with the time of the response. */
type Send = (service: number, addresses: readonly string[]) => Promise<number>;

/** A proxy that does not keep up is a figure, too: the sample is the limit. */
function orNever(error: unknown): Pick<Reached, 'startMs' | 'failures'> {
  if (!(error instanceof NotReached)) throw error;
  return { startMs: Number.POSITIVE_INFINITY, failures: 0 };
}

export class ChangeSeries {
  readonly #site: Site;
  readonly #proxy: RunningProxy;
  readonly #prober: Prober;
  readonly #pace: Pace;
  #changes = 0;

  constructor(site: Site, proxy: RunningProxy, prober: Prober, pace: Pace) {
    this.#site = site;
    this.#proxy = proxy;
    this.#prober = prober;
    this.#pace = pace;
  }

  /** Nothing else changes. */
  async quiet(): Promise<Pick<Figures, 'quiet' | 'cpuMsPerChange'>> {
    const before = this.#proxy.cpuSeconds();
    const quiet = await this.#oneByOne(this.#pace.quietPauseMs);
    const cpuMs = (this.#proxy.cpuSeconds() - before) * 1000;
    return { quiet, cpuMsPerChange: cpuMs / quiet.samplesMs.length };
  }

  /** Many others change meanwhile. */
  async busy(): Promise<Latencies> {
    await this.#startChurn();
    await letPass(WARM_UP_MS);
    const latencies = await this.#oneByOne(this.#pace.busyPauseMs);
    await this.#site.changer.endChurn();
    return latencies;
  }

  /** Streams of changes; the effect of the last one of each is awaited. CPU time is measured in the first. */
  async streams(): Promise<Omit<ChurnFigures, 'busy'>> {
    const [seconds = 0, ...others] = this.#pace.streamSeconds;
    await this.#startChurn();
    const cpuCores = await this.#cpuCores(seconds);
    const first = await this.#endChurn();
    const shown = [first.latency];
    for (const otherSeconds of others) {
      await letPass(WARM_UP_MS);
      await this.#startChurn();
      await letPass(otherSeconds * 1000);
      shown.push((await this.#endChurn()).latency);
    }
    const { sent, refused, elapsedMs } = first.report;
    const changesPerSecond = sent / (elapsedMs / 1000);
    return { last: mergeLatencies(shown), changesPerSecond, seconds, cpuCores, refused };
  }

  async #oneByOne([leastMs, randomMs]: readonly [number, number]): Promise<Latencies> {
    const { changes, changesTimeMs } = this.#pace;
    const deadlineMs = monotonicMs() + changesTimeMs;
    const shown: Latencies[] = [];
    while (shown.length < changes && monotonicMs() < deadlineMs) {
      await letPass(leastMs + Math.random() * randomMs);
      shown.push(await this.#show(this.#site.changer.change));
    }
    return mergeLatencies(shown);
  }

  #startChurn(): Promise<void> {
    const { services, probes } = this.#site;
    const spared = probes.map(({ number }) => number);
    const perSecond = CHANGES_PER_SECOND;
    return this.#site.changer.startChurn({
      ...{ perSecond, services, spared, endpointsEach: ENDPOINTS_EACH },
    });
  }

  async #endChurn(): Promise<{ readonly latency: Latencies; readonly report: ChurnReport }> {
    let report: ChurnReport | undefined;
    const latency = await this.#show(async (service, addresses) => {
      report = await this.#site.changer.endChurn({ service, addresses });
      return report.answeredMs;
    });
    return { latency, report: report! };
  }

  async #cpuCores(seconds: number): Promise<number> {
    await letPass(WARM_UP_MS);
    const [startedMs, before] = [monotonicMs(), this.#proxy.cpuSeconds()];
    await letPass(seconds * 1000);
    return (this.#proxy.cpuSeconds() - before) / ((monotonicMs() - startedMs) / 1000);
  }

  /** Moves the endpoint of the next probe Service to the other backend. */
  async #show(send: Send): Promise<Latencies> {
    const { probes, backends } = this.#site;
    const { number, clusterIp } = probes[this.#changes % probes.length]!;
    const tag = Math.floor(this.#changes / probes.length) % 2 === 0 ? 'b' : 'a';
    this.#changes += 1;
    const { reached } = await this.#prober.begin({
      ...{ address: clusterIp, port: 80, tag },
      periodMs: this.#pace.probePeriodMs,
      patienceMs: PATIENCE_MS,
      timeoutMs: EFFECT_TIMEOUT_MS,
    });
    const [answeredMs, { startMs, failures }] = await Promise.all([
      send(number, [backends[tag]]),
      reached().catch(orNever),
    ]);
    return { samplesMs: [Math.min(startMs - answeredMs, EFFECT_TIMEOUT_MS)], failures };
  }
}
