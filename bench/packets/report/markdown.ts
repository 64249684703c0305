// SPDX-License-Identifier: Apache-2.0
// A report as Markdown.
import { asMarkdown } from '../../../tools/bench/lib/tables.ts';
import { whereText } from '../../lib/environment.ts';
import type { PacketReport } from './figures.ts';
import { frameTables } from './frames/frame-cells.ts';
import { programCells, rateCells, skippedLines } from './rate-cells.ts';

function headLines(
  report: PacketReport,
  sizes: readonly { readonly loadAfter: number }[],
): readonly string[] {
  const loads = [report.machine.loadBefore, ...sizes.map(({ loadAfter }) => loadAfter)];
  return [
    `${whereText(report)}; ${report.rounds} rounds;`,
    `load of the machine before the run and after each size ${loads.map((load) => load.toFixed(1)).join(', ')}.`,
    ...skippedLines(report),
  ];
}

export function packetMarkdown(report: PacketReport): string {
  const { sizes } = report;
  return [
    ...headLines(report, sizes),
    ...sizes.flatMap((size) => ['', asMarkdown(rateCells(size))]),
    ...sizes.flatMap((size) => {
      const cells = programCells(size);
      return cells.length === 0 ? [] : ['', asMarkdown(cells)];
    }),
  ].join('\n');
}

export const framesMarkdown = (report: PacketReport): string =>
  [
    ...headLines(report, report.frames),
    ...report.frames.flatMap(frameTables).flatMap((cells) => ['', asMarkdown(cells)]),
  ].join('\n');
