// SPDX-License-Identifier: Apache-2.0
// `npm run bench:control`: the cost of following a control plane of a given size, for fairlead and for kube-proxy.
// Figures go to standard output and into a JSON file, progress to standard error. With --markdown it measures
// nothing and prints the figures of such a file as tables of Markdown.
import { prepareKubeProxy } from '../../test/integration/cluster/kube-proxy/kube-proxy.ts';
import { type Binaries, prepareCluster } from '../../test/integration/cluster/programs/binaries.ts';
import { kubernetesVersion } from '../../test/support/programs/kubernetes.ts';
import { exitOnSignals } from '../../tools/lab/topology.ts';
import { environment } from '../lib/environment.ts';
import { printMarkdown, tell, writeReport } from '../lib/reports.ts';
import { type Options, parseOptions } from './options.ts';
import type { Report, SizeFigures } from './report/figures.ts';
import { reportMarkdown } from './report/markdown.ts';
import { sizeText } from './report/text.ts';
import { measureSize } from './rounds.ts';
import { API_SERVER_FLAGS } from './site.ts';

/** docs/errors.md: a requirement that this machine does not meet. */
const EXIT_UNSUPPORTED = 5;
/** A build just before leaves some. */
const BUSY_LOAD = 1;

async function prepare(options: Options): Promise<Binaries> {
  const readiness = await prepareCluster();
  if (!readiness.isReady) return refuse(readiness.reason);
  const needsTools = options.proxies.some((name) => name !== 'fairlead'); // The tools of iptables, too.
  const missing = needsTools ? await prepareKubeProxy() : undefined;
  return missing === undefined ? readiness.binaries : refuse(missing);
}

function refuse(reason: string): never {
  process.stderr.write(`error: ${reason}\n`);
  process.exit(EXIT_UNSUPPORTED);
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
        ...{ ...where, kubernetes: kubernetesVersion(), apiServerFlags: API_SERVER_FLAGS },
        iptables: options.iptables,
        sizes: [...sizes, size],
      } satisfies Report);
    const size = await measureSize({ binaries, services, options, keep, tell });
    sizes.push(size);
    process.stdout.write(`${sizeText(size)}\n\n`);
  }
  tell(`figures are in ${options.json}`);
}

const options = parseOptions(process.argv.slice(2));
if (options.markdown) printMarkdown<Report>(options.json, (report) => [reportMarkdown(report)]);
else await measureAll(options);
