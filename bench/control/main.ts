// SPDX-License-Identifier: Apache-2.0
// `npm run bench:control`: the cost of following a control plane of a given size, for fairlead and for kube-proxy.
// Figures go to standard output and into a JSON file, progress to standard error. With --document it measures
// nothing and writes the figures of such a file into docs/bench.md.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { exitOnSignals } from '../../src/lab/topology.ts';
import { packageRoot } from '../../src/sys/package.ts';
import { prepareKubeProxy } from '../../test/integration/cluster/kube-proxy/kube-proxy.ts';
import { type Binaries, prepareCluster } from '../../test/integration/cluster/programs/binaries.ts';
import { environment } from './environment.ts';
import { measureColumn } from './measure.ts';
import { type Options, parseOptions } from './options.ts';
import { replaceFigures } from './report/document.ts';
import type { Report, SizeFigures } from './report/figures.ts';
import { reportMarkdown } from './report/markdown.ts';
import { sizeText } from './report/text.ts';
import { API_SERVER_FLAGS, ENDPOINTS_EACH, openSite } from './site.ts';

/** docs/exit-codes.md: a requirement that this machine does not meet. */
const EXIT_UNSUPPORTED = 5;
/** A build just before leaves some. */
const BUSY_LOAD = 1;

function tell(what: string): void {
  process.stderr.write(`bench: ${what}\n`);
}

async function prepare(options: Options): Promise<Binaries> {
  const readiness = await prepareCluster();
  if (!readiness.isReady) return refuse(readiness.reason);
  const needsTools = options.proxies.some((name) => name !== 'fairlead');
  const missing = needsTools ? await prepareKubeProxy() : undefined;
  return missing === undefined ? readiness.binaries : refuse(missing);
}

function refuse(reason: string): never {
  process.stderr.write(`error: ${reason}\n`);
  process.exit(EXIT_UNSUPPORTED);
}

/** @param keep receives the figures after each column, so that a late failure does not lose half an hour's work */
async function measureSize(
  binaries: Binaries,
  services: number,
  { proxies, changes }: Options,
  keep: (size: SizeFigures) => void,
): Promise<SizeFigures> {
  tell(`${services} Services × ${ENDPOINTS_EACH}: loading`);
  const site = await openSite({ binaries, services, proxies });
  try {
    tell(`loaded in ${site.loadSeconds.toFixed(1)} s`);
    const { loadSeconds } = site;
    let size: SizeFigures = { services, endpointsEach: ENDPOINTS_EACH, loadSeconds, columns: {} };
    for (const proxy of proxies) {
      const onProgress = (what: string): void => tell(`${services}, ${proxy}: ${what}`);
      const figures = await measureColumn({ site, proxy, changes, onProgress });
      size = { ...size, columns: { ...size.columns, [proxy]: figures } };
      keep(size);
    }
    return size;
  } finally {
    await site.remove();
  }
}

async function measureAll(options: Options): Promise<void> {
  exitOnSignals();
  const where = await environment(); // Read before the run: the tree may change while it is measured.
  const { loadBefore } = where.machine;
  if (loadBefore > BUSY_LOAD) tell(`others use this machine (load ${loadBefore}): expect noise`);
  const binaries = await prepare(options);
  const sizes: SizeFigures[] = [];
  for (const services of options.services) {
    const keep = (size: SizeFigures): void =>
      writeReport(options.json, {
        ...{ ...where, apiServerFlags: API_SERVER_FLAGS },
        sizes: [...sizes, size],
      });
    const size = await measureSize(binaries, services, options, keep);
    sizes.push(size);
    process.stdout.write(`${sizeText(size)}\n\n`);
  }
  tell(`figures are in ${options.json}`);
}

function writeReport(path: string, report: Report): void {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, `${JSON.stringify(report, undefined, 2)}\n`);
}

function writeDocument({ json }: Options): void {
  const report: Report = JSON.parse(readFileSync(json, 'utf8'));
  const path = join(packageRoot(), 'docs', 'bench.md');
  writeFileSync(path, replaceFigures(readFileSync(path, 'utf8'), reportMarkdown(report)));
  tell(`${json} is now in docs/bench.md`);
}

const options = parseOptions(process.argv.slice(2));
if (options.document) writeDocument(options);
else await measureAll(options);
