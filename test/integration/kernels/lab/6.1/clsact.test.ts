// SPDX-License-Identifier: Apache-2.0
// A kernel that has no filters for devices (Linux 6.1 without sch_ingress): sockets by eBPF, packets by iptables, with the reason.
import { afterAll } from 'vitest';
import { declareChecks, runChecks } from '../../devices/run.ts';
import { bootGuest } from '../../guest.ts';

const guest = await bootGuest('6.1', ['without=sch_ingress']);
afterAll(() => guest.stop());
declareChecks(guest, await runChecks(guest, ['rules', 'clsact']));
