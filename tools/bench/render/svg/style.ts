// SPDX-License-Identifier: Apache-2.0
// How columns look: a colour of the Okabe-Ito palette, which people with any colour vision can tell apart, and besides
// it a marker and a line of its own, so that a plot can be read without colours. Colours exist for both themes. Pure.
import { COLUMNS, type ColumnName } from '../../report/types.ts';
import { element } from './markup.ts';

interface Look {
  readonly light: string;
  readonly dark: string;
  /** As in stroke-dasharray. */
  readonly dashes: string;
  readonly marker: (x: number, y: number, className: string) => string;
}

/** Half of a marker. */
const R = 4;

const polygon =
  (...points: readonly (readonly [number, number])[]): Look['marker'] =>
  (x, y, className) =>
    element('polygon', {
      class: className,
      points: points.map(([dx, dy]) => `${tenth(x + dx * R)},${tenth(y + dy * R)}`).join(' '),
    });

const tenth = (value: number): number => Math.round(value * 10) / 10;

const dot: Look['marker'] = (cx, cy, className) =>
  element('ellipse', { class: className, cx, cy, rx: R, ry: R });

export const LOOKS: Readonly<Record<ColumnName, Look>> = {
  none: {
    light: '#5f6670',
    dark: '#b4bac4',
    dashes: '1 3',
    marker: polygon([-1, -0.4], [1, -0.4], [1, 0.4], [-1, 0.4]),
  },
  'fairlead-bpf': { light: '#0072b2', dark: '#56b4e9', dashes: 'none', marker: dot },
  'fairlead-iptables': {
    light: '#00795a',
    dark: '#2fc79b',
    dashes: '7 3',
    marker: polygon([-0.9, -0.9], [0.9, -0.9], [0.9, 0.9], [-0.9, 0.9]),
  },
  'fairlead-nftables': {
    light: '#6e6200',
    dark: '#e0cf3c',
    dashes: '5 2 1 2',
    marker: polygon([-1.1, -0.9], [1.1, -0.9], [0, 1.2]),
  },
  'fairlead-userspace': {
    light: '#7a3e9d',
    dark: '#c9a2e0',
    dashes: '2 2 6 2',
    marker: polygon([-1.2, -0.5], [0, -1.2], [1.2, -0.5], [0.8, 1], [-0.8, 1]),
  },
  'kube-proxy-iptables': {
    light: '#c24f00',
    dark: '#f0893e',
    dashes: '3 3',
    marker: polygon([0, -1.2], [1.1, 0.9], [-1.1, 0.9]),
  },
  'kube-proxy-nftables': {
    light: '#a3437c',
    dark: '#e39ac6',
    dashes: '9 3 2 3',
    marker: polygon([0, -1.3], [1.3, 0], [0, 1.3], [-1.3, 0]),
  },
};

interface Theme {
  readonly ink: string;
  readonly faint: string;
  readonly grid: string;
  readonly back: string;
}

const THEMES: Readonly<Record<'light' | 'dark', Theme>> = {
  light: { ink: '#1c2128', faint: '#59636e', grid: '#d9dee4', back: '#ffffff' },
  dark: { ink: '#e6e9ee', faint: '#a3adb9', grid: '#39414b', back: '#14181d' },
};

/** Colours are written out: librsvg and Inkscape know no var(). */
function coloursOf(theme: 'light' | 'dark'): string {
  const { ink, faint, grid, back } = THEMES[theme];
  const columns = COLUMNS.map((name) => {
    const colour = LOOKS[name][theme];
    const [line, range, marker] = ['line', 'range', 'marker'].map(
      (part) => `.b-${name} .b-${part}`,
    );
    return `${line},${range}{stroke:${colour}}${marker}{fill:${colour}}`;
  });
  return [
    `.b-back{fill:${back}}.b-plot text{fill:${ink}}.b-plot .b-faint{fill:${faint}}`,
    `.b-grid{stroke:${grid}}.b-axis{stroke:${faint}}.b-marker{stroke:${back}}`,
    ...columns,
  ].join('');
}

/** For a picture of its own and within a page alike: every class begins with `b-`. */
export const STYLE = [
  '.b-plot{font-family:system-ui,-apple-system,"Segoe UI","DejaVu Sans",sans-serif}',
  '.b-plot text{font-size:12px}.b-plot .b-title{font-size:13px;font-weight:600}',
  '.b-plot .b-head{font-size:16px;font-weight:600}.b-plot .b-faint{font-size:11px}',
  '.b-line{fill:none;stroke-width:1.6}.b-range{stroke-width:1.6}.b-marker{stroke-width:1}',
  coloursOf('light'),
  `@media(prefers-color-scheme:dark){${coloursOf('dark')}}`,
].join('');
