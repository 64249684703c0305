// SPDX-License-Identifier: Apache-2.0
// The columns of one size, in rounds: each has a turn in every round, so that other work of the machine strikes all.
import type { Binaries } from '../../test/integration/cluster/programs/binaries.ts';
import { turns } from '../../tools/lab/columns/turns.ts';
import { measureColumn } from './measure.ts';
import type { Options } from './options.ts';
import { isFinished, type Round, type SizeFigures } from './report/figures.ts';
import { ENDPOINTS_EACH, openSite, type Site } from './site.ts';

export interface SizeSpec {
  readonly binaries: Binaries;
  readonly services: number;
  readonly options: Options;
  /** Receives the figures after each column, so that a late failure does not lose half an hour's work. */
  readonly keep: (size: SizeFigures) => void;
  readonly tell: (what: string) => void;
}

export async function measureSize(spec: SizeSpec): Promise<SizeFigures> {
  const { binaries, services, options, keep, tell } = spec;
  tell(`${services} Services × ${ENDPOINTS_EACH}: loading`);
  const { proxies, rounds, iptables: variant } = options;
  const site = await openSite({ binaries, services, proxies, rounds, variant });
  try {
    const { loadSeconds } = site;
    tell(`loaded in ${loadSeconds.toFixed(1)} s`);
    let size: SizeFigures = { services, endpointsEach: ENDPOINTS_EACH, loadSeconds, rounds: [] };
    for (let number = 0; number < rounds; number += 1) {
      const before = size;
      const onColumn = (round: Round): void => {
        size = { ...before, rounds: [...before.rounds, round] };
        keep(size);
      };
      await measureRound({ ...spec, site, earlier: before.rounds, onColumn });
    }
    return size;
  } finally {
    await site.remove();
  }
}

interface RoundSpec extends Pick<SizeSpec, 'options' | 'tell'> {
  readonly site: Site;
  readonly earlier: readonly Round[];
  readonly onColumn: (round: Round) => void;
}

/** Every round begins with another column. One that did not finish before has no further turn. */
async function measureRound(spec: RoundSpec): Promise<void> {
  const { site, options, earlier, onColumn, tell } = spec;
  const { proxies, changes, limit, brief } = options;
  const number = earlier.length;
  let round: Round = {};
  for (const proxy of turns(proxies, number)) {
    if (earlier.some(({ [proxy]: column }) => column !== undefined && !isFinished(column)))
      continue;
    const where = `${site.services}, ${proxy}, round ${number + 1}`;
    const figures = await measureColumn({
      ...{ site, seat: { proxy, round: number }, changes, limitSeconds: limit, isBrief: brief },
      onProgress: (what) => tell(`${where}: ${what}`),
    });
    round = { ...round, [proxy]: figures };
    onColumn(round);
  }
}
