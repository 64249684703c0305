// SPDX-License-Identifier: Apache-2.0
// The page as a browser shows it, in both themes: nothing is clipped, covered or too pale to read, and nothing is loaded.
// With chromium-headless-shell or chromium of Debian; skipped without.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { run } from '../../../../../src/sys/exec.ts';
import { reportHtml } from '../../../../../tools/bench/render/page/page.ts';
import { METRIC_NAMES } from '../../../../../tools/bench/report/metrics.ts';
import {
  type BenchReport,
  COLUMNS,
  type Samples,
} from '../../../../../tools/bench/report/types.ts';
import { SAMPLE } from '../report/sample.ts';

const PROGRAMS = ['chromium-headless-shell', 'chromium'];
const { stdout } = await run('sh', ['-c', `command -v ${PROGRAMS.join(' || command -v ')}`]);
const browser = stdout.trim();
if (browser === '') {
  process.stderr.write(
    '\n=== test of the page in a browser SKIPPED: no chromium; apt-get install chromium-headless-shell\n\n',
  );
}

const directory = mkdtempSync(join(tmpdir(), 'fairlead-page-'));
afterAll(() => rmSync(directory, { recursive: true, force: true }));

/** Every metric of every column at four sizes, from small to huge: as much text as there can be. */
function full(): BenchReport {
  const samples = (scale: number): Samples =>
    Object.fromEntries(
      METRIC_NAMES.map((metric, at) => [
        metric,
        Object.fromEntries(
          COLUMNS.map((name, column) => [
            name,
            [1, 1.1, 0.9].map((x) => x * scale * (1 + column) * 7 ** (at % 8)),
          ]),
        ),
      ]),
    );
  const [size] = SAMPLE.sizes;
  const sizes = [100, 1_000, 5_000, 10_000].map((services) => ({
    ...size!,
    ...{ services, samples: samples(services / 77) },
  }));
  return { ...SAMPLE, columns: COLUMNS, skipped: {}, sizes };
}

interface Facts {
  readonly [fact: string]: unknown;
}

async function look(report: BenchReport, theme: 'light' | 'dark'): Promise<Facts> {
  const file = join(directory, `${theme}.html`);
  const script = readFileSync(new URL('facts.mjs', import.meta.url), 'utf8');
  const page = reportHtml(report).replace('</body>', () => `<script>${script}</script></body>`);
  writeFileSync(file, page);
  const {
    code,
    stdout: dom,
    stderr,
  } = await run(
    browser,
    [
      ...['--no-sandbox', '--disable-gpu', '--headless', '--window-size=1200,900', '--dump-dom'],
      ...[`--user-data-dir=${join(directory, theme)}`],
      ...[`--blink-settings=preferredColorScheme=${theme === 'dark' ? 0 : 1}`, `file://${file}`],
    ],
    { timeoutMs: 120_000 },
  );
  const found = /<pre id="facts">([^<]+)</.exec(dom)?.[1];
  if (code !== 0 || found === undefined) throw new Error(`${browser}: code ${code}: ${stderr}`);
  return JSON.parse(Buffer.from(found, 'base64').toString('latin1'));
}

describe.skipIf(browser === '')('in a browser', () => {
  test.each([
    { theme: 'light', isDark: false },
    { theme: 'dark', isDark: true },
  ] as const)(
    'everything can be read in the $theme theme',
    async ({ theme, isDark }) => {
      const report = full();
      const plots = METRIC_NAMES.length;
      const inRoll = 1;
      expect(await look(report, theme)).toEqual({
        ...{ requests: 0, isDark, isScrolledSideways: false },
        ...{ outside: [], overlapping: [], pale: [] },
        plots: plots + inRoll,
        // In the plots, one for each value of the roll, and the legend.
        marks: plots * COLUMNS.length * 4 + 2 + COLUMNS.length,
        rows: plots * 4 + inRoll,
      });
    },
    150_000,
  );
});
