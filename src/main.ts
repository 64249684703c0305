#!/usr/bin/env node
// SPDX-License-Identifier: Apache-2.0
// fairlead: `run` is the agent; every other command talks to its socket, to pinned maps, or to nothing. This file loads begin.ts,
// and what that imports, as files of `parts`.
import { fileURLToPath } from 'node:url';
import { Parts } from './sys/process/parts.ts';

new Parts().load(fileURLToPath(new URL('parts/begin.js', import.meta.url)));
