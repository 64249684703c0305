// SPDX-License-Identifier: Apache-2.0
// docs/diagrams/*.dot -> *.svg beside them (`npm run docs:diagrams`). The SVG follows the reader's light or
// dark theme, and has the hash of its source, so that a test can tell when it is stale.
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const FOLDER = fileURLToPath(new URL('../../docs/diagrams/', import.meta.url));
/** Laid out larger than it is drawn: readers' fonts are wider than the one graphviz measures by. */
const FONT = 'Helvetica,Arial,sans-serif';
const LIGHT = {
  ink: '#1f2328',
  line: '#59636e',
  box: '#f6f8fa',
  group: '#d1d9e0',
  accent: '#0969da',
  tint: '#ddf4ff',
};
const DARK = {
  ink: '#f0f6fc',
  line: '#9198a1',
  box: '#151b23',
  group: '#3d444d',
  accent: '#4493f8',
  tint: '#121d2f',
};

const ATTRIBUTES = {
  graphAttributes: {
    bgcolor: 'transparent',
    fontname: FONT,
    fontsize: 15,
    fontcolor: LIGHT.ink,
    color: LIGHT.group,
    style: 'rounded',
    labeljust: 'l',
    compound: true,
    pad: 0.1,
  },
  nodeAttributes: {
    fontname: FONT,
    fontsize: 14.5,
    fontcolor: LIGHT.ink,
    color: LIGHT.line,
    fillcolor: LIGHT.box,
    margin: '0.14,0.08',
  },
  edgeAttributes: {
    fontname: FONT,
    fontsize: 13,
    fontcolor: LIGHT.line,
    color: LIGHT.line,
    arrowsize: 0.7,
  },
};

const styles = ({ ink, line, box, group, accent, tint }) => `
text { fill: ${ink}; font-size: 12px; }
.edge text { fill: ${line}; font-size: 11px; }
.edge path { stroke: ${line}; } .edge polygon { stroke: ${line}; fill: ${line}; }
.node path, .node polygon { stroke: ${line}; fill: ${box}; }
.cluster path { stroke: ${group}; fill: none; }
.accent path, .accent polygon { stroke: ${accent}; fill: ${tint}; }
.muted path, .muted polygon { stroke-dasharray: 4 3; }`;

/** Over the source and this script: both determine the picture. */
const hashOf = (source) =>
  createHash('sha256')
    .update(source)
    .update(readFileSync(fileURLToPath(import.meta.url)))
    .digest('hex');

export function stale() {
  return sources()
    .filter(({ svg, hash }) => !svg.includes(`<!-- made from ${hash} -->`))
    .map(({ name }) => name);
}

function sources() {
  return readdirSync(FOLDER)
    .filter((file) => file.endsWith('.dot'))
    .map((file) => {
      const name = file.slice(0, -'.dot'.length);
      const source = readFileSync(`${FOLDER}${file}`, 'utf8');
      let svg = '';
      try {
        svg = readFileSync(`${FOLDER}${name}.svg`, 'utf8');
      } catch {
        // Not made yet.
      }
      return { name, source, svg, hash: hashOf(source) };
    });
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { instance } = await import('@viz-js/viz');
  const viz = await instance();
  for (const { name, source, hash } of sources()) {
    const svg = viz.renderString(source, { format: 'svg', ...ATTRIBUTES });
    const style = `<style>${styles(LIGHT)}\n@media (prefers-color-scheme: dark) {${styles(DARK)}\n}</style>`;
    // The second line of a source says what the picture shows.
    const title = `<title>${source.split('\n')[1].slice('// '.length)}</title>`;
    const head = `$1\n${title}\n<!-- made from ${hash} -->\n${style}`;
    const body = svg.slice(svg.indexOf('<svg')).replace(/(<svg[^>]*>)/, head);
    writeFileSync(`${FOLDER}${name}.svg`, body);
  }
}
