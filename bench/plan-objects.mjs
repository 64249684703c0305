// SPDX-License-Identifier: Apache-2.0
// Services of one port and ten endpoints each, as API objects, and the settings of a plan of them.

export const ENDPOINTS = 10;

/** @type {import('../build/js/plan/types.js').PlanSettings} */
export const SETTINGS = {
  nodeName: 'n1',
  detectLocalMode: 'ClusterCIDR',
  clusterCidrs: ['10.0.0.0/9'],
  masqueradeAll: false,
  nodePortAddresses: [],
  allowExternalIps: true,
};

/** @param {number} service @returns {import('../build/js/model/types.js').ObjectChange} */
export function serviceChange(service) {
  const clusterIP = `10.200.${service >> 8}.${service & 255}`;
  return {
    type: 'put',
    ref: { kind: 'Service', namespace: `ns-${service % 50}`, name: `web-${service}` },
    object: {
      metadata: { name: `web-${service}`, creationTimestamp: '2026-01-31T08:00:00Z' },
      spec: {
        type: 'ClusterIP',
        clusterIP,
        clusterIPs: [clusterIP],
        ipFamilies: ['IPv4'],
        ports: [{ name: 'http', port: 80, targetPort: 8080, protocol: 'TCP' }],
      },
    },
  };
}

/** @param {number} service @param {number} round @returns {import('../build/js/model/types.js').ObjectChange} */
export function sliceChange(service, round) {
  const endpoints = Array.from({ length: ENDPOINTS }, (_, index) => {
    const number = service * ENDPOINTS + index + 1;
    const isNew = round > 0 && index === round % ENDPOINTS;
    return {
      addresses: [`10.${isNew ? 100 : number >> 16}.${(number >> 8) & 255}.${number & 255}`],
      conditions: { ready: true, serving: true, terminating: false },
      nodeName: `n${number % 100}`,
      zone: `zone-${number % 3}`,
    };
  });
  return {
    type: 'put',
    ref: { kind: 'EndpointSlice', namespace: `ns-${service % 50}`, name: `web-${service}-abcde` },
    object: {
      metadata: { labels: { 'kubernetes.io/service-name': `web-${service}` } },
      addressType: 'IPv4',
      ports: [{ name: 'http', port: 8080, protocol: 'TCP' }],
      endpoints,
    },
  };
}
