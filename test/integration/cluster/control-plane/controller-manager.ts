// SPDX-License-Identifier: Apache-2.0
// One kube-controller-manager. By default it runs only the controllers Services need: without the node lifecycle
// controller, nodes stay healthy although there is no kubelet.
import { join } from 'node:path';
import type { Sandbox } from '../../../../tools/lab/sandbox.ts';
import { type Program, startProgram } from '../programs/program.ts';
import type { Certificates } from './certificates.ts';
import { SERVICE_CIDRS } from './network.ts';

const CONTROLLERS = [
  'endpoints-controller',
  'endpointslice-controller',
  'endpointslice-mirroring-controller',
  'garbage-collector-controller',
  'namespace-controller',
  'service-cidr-controller',
  'serviceaccount-controller',
  'serviceaccount-token-controller',
];

export interface ControllerManagerSpec {
  readonly sandbox: Sandbox;
  readonly binary: string;
  readonly certificates: Certificates;
  readonly directory: string;
  /** A kubeconfig with all permissions. */
  readonly kubeconfig: string;
  readonly controllers: 'services' | 'all';
}

/** Starts it without waiting: tests wait for the objects it creates. */
export function startControllerManager(spec: ControllerManagerSpec): Program {
  const { sandbox, binary, certificates, directory, kubeconfig, controllers } = spec;
  return startProgram(sandbox, 'kube-controller-manager', [
    binary,
    `--kubeconfig=${kubeconfig}`,
    `--controllers=${controllers === 'all' ? '*' : CONTROLLERS.join(',')}`,
    `--service-account-private-key-file=${certificates.serviceAccounts.privateKey}`,
    `--root-ca-file=${certificates.ca}`,
    `--service-cluster-ip-range=${SERVICE_CIDRS.join(',')}`,
    `--cert-dir=${join(directory, 'controller-manager')}`,
    '--bind-address=127.0.0.1',
    '--leader-elect=false',
    '--kube-api-qps=1000',
    '--kube-api-burst=2000',
  ]);
}
