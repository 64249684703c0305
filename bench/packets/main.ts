// SPDX-License-Identifier: Apache-2.0
// `npm run bench:packets`: what packets through a NodePort cost a node, for fairlead, for kube-proxy and for routing
// without a Service. Tables go to standard output, figures into a JSON file, progress to standard error. With --markdown
// it measures nothing and prints the figures of such a file as tables of Markdown.
import { prepareKubeProxy } from '../../test/integration/cluster/kube-proxy/kube-proxy.ts';
import { prepareCluster } from '../../test/integration/cluster/programs/binaries.ts';
import { asText, type Cells } from '../../tools/bench/lib/tables.ts';
import { exitOnSignals } from '../../tools/lab/topology.ts';
import { environment } from '../lib/environment.ts';
import { printMarkdown, tell, writeReport } from '../lib/reports.ts';
import { measureFrames } from './frames/measure.ts';
import { measureAll } from './measure.ts';
import { type Options, parseOptions } from './options.ts';
import { type ColumnName, columnsOf, type PacketReport } from './report/figures.ts';
import { frameTables } from './report/frames/frame-cells.ts';
import { framesMarkdown, packetMarkdown } from './report/markdown.ts';
import { programCells, rateCells, skippedLines } from './report/rate-cells.ts';

/** docs/errors.md: a requirement that this machine does not meet. */
const EXIT_UNSUPPORTED = 5;

interface KubeProxyPath {
  readonly path?: string;
  readonly reason?: string;
}

async function findKubeProxy({ columns }: Options): Promise<KubeProxyPath> {
  if (!columns.some(isKubeProxy)) return {};
  const readiness = await prepareCluster();
  if (!readiness.isReady) return { reason: readiness.reason };
  const reason = await prepareKubeProxy();
  return reason === undefined ? { path: readiness.binaries.kubeProxy } : { reason };
}

const isKubeProxy = (name: ColumnName): boolean => name === 'iptables' || name === 'nftables';

async function measure(options: Options): Promise<void> {
  if (process.getuid?.() !== 0) {
    process.stderr.write('error: bench:packets makes network namespaces: run it with sudo\n');
    process.exit(EXIT_UNSUPPORTED);
  }
  exitOnSignals();
  const where = await environment();
  tell(`load of the machine: ${where.machine.loadBefore}`);
  const { path, reason } = await findKubeProxy(options);
  const columns = options.columns.filter((name) => reason === undefined || !isKubeProxy(name));
  const skipped = Object.fromEntries(
    options.columns.filter((name) => !columns.includes(name)).map((name) => [name, reason ?? '']),
  );
  for (const line of skippedLines({ skipped })) tell(line);
  const { rounds } = options;
  let report: PacketReport = { ...where, rounds, skipped, sizes: [], frames: [] };
  const keep = (more: Partial<PacketReport>, tables: readonly Cells[]): void => {
    report = { ...report, ...more };
    writeReport(options.json, report);
    for (const cells of tables) {
      if (cells.length > 0) process.stdout.write(`${asText(cells)}\n\n`);
    }
  };
  const means = { kubeProxyPath: path, onProgress: tell };
  if (options.parts.includes('sockets')) {
    await measureAll({
      ...means,
      options: { ...options, columns: columnsOf('sockets', columns) },
      onSize: (size) =>
        keep({ sizes: [...report.sizes, size] }, [rateCells(size), programCells(size)]),
    });
  }
  if (options.parts.includes('frames')) {
    await measureFrames({
      ...means,
      options: { ...options, columns: columnsOf('frames', columns) },
      onSize: (size) => keep({ frames: [...report.frames, size] }, frameTables(size)),
    });
  }
  for (const line of skippedLines({ skipped })) process.stdout.write(`${line}\n`);
  tell(`figures are in ${options.json}`);
}

const options = parseOptions(process.argv.slice(2));
if (options.markdown) {
  printMarkdown<PacketReport>(options.json, (report) => [
    ...(report.sizes.length > 0 ? [packetMarkdown(report)] : []),
    ...(report.frames.length > 0 ? [framesMarkdown(report)] : []),
  ]);
} else await measure(options);
