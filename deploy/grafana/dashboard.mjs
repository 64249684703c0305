// SPDX-License-Identifier: Apache-2.0
// Draws the dashboard: `node deploy/grafana/dashboard.mjs`. It is a file of the chart, as the alerts are: helm takes nothing
// from outside of a chart's folder, except by a symbolic link, for which it prints a warning with every command.
// A test compares the file with what this makes, and another one evaluates every query on a real scrape.
import { writeFileSync } from 'node:fs';
import { fileURLToPath, pathToFileURL } from 'node:url';

const FILE = fileURLToPath(new URL('../helm/fairlead/files/dashboard.json', import.meta.url));

/**
 * @typedef {{ readonly legend: string, readonly expr: string }} Query
 * @typedef {{ readonly title: string, readonly unit: string, readonly queries: readonly Query[], readonly text?: string }} Panel
 */

/** @param {string} legend @param {string} expr @returns {Query} */
const query = (legend, expr) => ({ legend, expr });
const NODES = 'instance=~"$instance"';

/** Each row: what a person asks first comes first. `$instance` is one or more nodes. */
export const ROWS = /** @type {const} */ ([
  [
    'Is it right?',
    [
      {
        title: 'Nodes that are not ready',
        unit: 'short',
        text: 'The initial sync is not complete.',
        queries: [query('nodes', `count(fairlead_ready{${NODES}} == 0) or vector(0)`)],
      },
      {
        title: 'Entries that cannot be programmed',
        unit: 'short',
        text: '`fairlead status` names them and the reason.',
        queries: [query('{{instance}}', `fairlead_failed_entries{${NODES}}`)],
      },
      {
        title: 'Objects that are rejected',
        unit: 'short',
        queries: [query('{{kind}}', `max by (kind) (fairlead_rejected_inputs{${NODES}})`)],
      },
      {
        title: 'Dataplane',
        unit: 'short',
        queries: [
          query('{{dataplane}}', `count by (dataplane) (fairlead_dataplane_info{${NODES}} == 1)`),
        ],
      },
    ],
  ],
  [
    'Connections',
    [
      {
        title: 'New connections, by Service',
        unit: 'cps',
        text: 'Only with --metrics-top-services N.',
        queries: [
          query(
            '{{namespace}}/{{service}}',
            `topk(10, sum by (namespace, service) (rate(fairlead_service_connections_total{${NODES}}[$__rate_interval])))`,
          ),
        ],
      },
      {
        title: 'Connections that nobody serves',
        unit: 'cps',
        text: 'Refused or dropped, because no endpoint is ready. Only with --metrics-top-services N.',
        queries: [
          query(
            '{{namespace}}/{{service}}',
            `topk(10, sum by (namespace, service) (rate(fairlead_service_unserved_total{${NODES}}[$__rate_interval])))`,
          ),
        ],
      },
      {
        title: 'Decisions of the programs',
        unit: 'ops',
        queries: [
          query(
            '{{reason}}',
            `sum by (reason) (rate(fairlead_outcomes_total{${NODES}}[$__rate_interval]))`,
          ),
        ],
      },
    ],
  ],
  [
    'Changes',
    [
      {
        title: 'Duration of a sync',
        unit: 's',
        queries: ['0.5', '0.99'].map((quantile) =>
          query(
            `p${Number(quantile) * 100}`,
            `histogram_quantile(${quantile}, sum by (le) (rate(kubeproxy_sync_proxy_rules_duration_seconds_bucket{${NODES}}[$__rate_interval])))`,
          ),
        ),
      },
      {
        title: 'Changes received',
        unit: 'ops',
        queries: [
          query(
            'EndpointSlices',
            `sum(rate(kubeproxy_sync_proxy_rules_endpoint_changes_total{${NODES}}[$__rate_interval]))`,
          ),
          query(
            'Services',
            `sum(rate(kubeproxy_sync_proxy_rules_service_changes_total{${NODES}}[$__rate_interval]))`,
          ),
        ],
      },
      {
        title: 'Services',
        unit: 'short',
        queries: [query('{{instance}}', `fairlead_services{${NODES}}`)],
      },
      {
        title: 'Drift repaired',
        unit: 'short',
        text: 'Programmed state that something else had changed.',
        queries: [
          query(
            '{{instance}}',
            `sum by (instance) (increase(fairlead_drift_total{${NODES}}[$__rate_interval]))`,
          ),
        ],
      },
    ],
  ],
  [
    'Resources',
    [
      {
        title: 'Maps: share in use',
        unit: 'percentunit',
        queries: [
          query(
            '{{map}}',
            `topk(10, max by (map) (fairlead_map_entries{${NODES}} / fairlead_map_max_entries{${NODES}}))`,
          ),
        ],
      },
      {
        title: 'Memory of the agent',
        unit: 'bytes',
        queries: [query('{{instance}}', `process_resident_memory_bytes{${NODES}}`)],
      },
      {
        title: 'Processor time of the agent',
        unit: 'percentunit',
        queries: [
          query('{{instance}}', `rate(process_cpu_seconds_total{${NODES}}[$__rate_interval])`),
        ],
      },
    ],
  ],
]);

const WIDTH = 24;
const HEIGHT = 8;
const DATA_SOURCE = { type: 'prometheus', uid: '$datasource' };

/** @param {Panel} panel @param {number} id @param {{ x: number, y: number, w: number, h: number }} gridPos */
const graph = ({ title, unit, queries, text }, id, gridPos) => ({
  ...{ id, title, type: 'timeseries', gridPos, datasource: DATA_SOURCE },
  ...(text === undefined ? {} : { description: text }),
  fieldConfig: { defaults: { unit, min: 0 }, overrides: [] },
  options: { legend: { displayMode: 'list', placement: 'bottom' }, tooltip: { mode: 'multi' } },
  targets: queries.map(({ legend, expr }, n) => ({
    refId: String.fromCharCode(65 + n),
    datasource: DATA_SOURCE,
    expr,
    legendFormat: legend,
  })),
});

/** @param {string} name @param {string} label @param {object} more */
const variable = (name, label, more) => ({ name, label, ...more });

export function dashboard() {
  let id = 0;
  let y = 0;
  const panels = [];
  for (const [title, row] of ROWS) {
    panels.push({
      id: ++id,
      title,
      type: 'row',
      collapsed: false,
      panels: [],
      gridPos: { x: 0, y, w: WIDTH, h: 1 },
    });
    const w = WIDTH / row.length;
    row.forEach((panel, n) => {
      panels.push(graph(panel, ++id, { x: n * w, y: y + 1, w, h: HEIGHT }));
    });
    y += HEIGHT + 1;
  }
  return {
    ...{ uid: 'fairlead', title: 'fairlead', tags: ['fairlead', 'kube-proxy'], schemaVersion: 39 },
    ...{ editable: true, refresh: '30s', time: { from: 'now-1h', to: 'now' }, timezone: 'browser' },
    templating: {
      list: [
        variable('datasource', 'Prometheus', { type: 'datasource', query: 'prometheus' }),
        variable('instance', 'Node', {
          ...{
            type: 'query',
            datasource: DATA_SOURCE,
            multi: true,
            includeAll: true,
            allValue: '.*',
            refresh: 2,
          },
          query: 'label_values(fairlead_build_info, instance)',
          current: { text: 'All', value: '$__all' },
        }),
      ],
    },
    panels,
  };
}

export const dashboardText = () => `${JSON.stringify(dashboard(), null, 2)}\n`;

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  writeFileSync(FILE, dashboardText());
}
