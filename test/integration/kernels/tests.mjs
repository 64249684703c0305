// SPDX-License-Identifier: Apache-2.0
// node tests.mjs REPORT SUITE: runs test files by vitest as SUITE says ({files, projects, only, isolate} in JSON) and appends one line of JSON
// to REPORT for each test as it ends, then `"end"`. Of a virtual machine that stops in the middle, what had ended until then is there.
import { appendFileSync } from 'node:fs';
import { stripVTControlCharacters } from 'node:util';
import { startVitest } from 'vitest/node';

const [path, suite] = process.argv.slice(2);
if (path === undefined || suite === undefined)
  throw new Error('usage: node tests.mjs REPORT SUITE');

/** @param {unknown} line */
const write = (line) => appendFileSync(path, `${JSON.stringify(line)}\n`);

/** @param {readonly {message?: string, stack?: string, diff?: string}[] | undefined} errors */
const textOf = (errors = []) =>
  stripVTControlCharacters(
    errors.map(({ message, stack, diff = '' }) => `${stack || message}\n${diff}`).join('\n'),
  ).trim();

class GuestReporter {
  /** @param {import('vitest/node').TestCase} test */
  onTestCaseResult(test) {
    const result = test.result();
    write({
      file: test.module.relativeModuleId,
      name: test.fullName,
      state: result.state,
      note: result.state === 'skipped' ? result.note : undefined,
      message: result.state === 'failed' ? textOf(result.errors) : undefined,
      seconds: Math.round(test.diagnostic()?.duration ?? 0) / 1000,
    });
  }

  /** What failed outside of any test counts as one. @param {import('vitest/node').TestModule} module */
  onTestModuleEnd(module) {
    const message = textOf(module.errors());
    if (message !== '') this.#fail(module.relativeModuleId, 'is loaded', message);
  }

  /** @param {readonly import('vitest/node').TestModule[]} _ @param {readonly {message?: string}[]} errors */
  onTestRunEnd(_, errors) {
    if (errors.length > 0) this.#fail('the run', 'has no errors outside of tests', textOf(errors));
    write('end');
  }

  /** @param {string} file @param {string} name @param {string} message */
  #fail(file, name, message) {
    write({ file, name, state: 'failed', message, seconds: 0 });
  }
}

/** @type {{files: string[], projects?: string[], only?: string, isolate?: boolean}} */
const { files, projects, only, isolate } = JSON.parse(suite);
const vitest = await startVitest('test', files, {
  ...{ run: true, watch: false, reporters: [new GuestReporter(), 'default'] },
  ...(projects === undefined ? {} : { project: projects }),
  ...(only === undefined ? {} : { testNamePattern: only }),
  ...(isolate === undefined ? {} : { isolate }),
});
await vitest.close();
