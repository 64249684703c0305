// SPDX-License-Identifier: Apache-2.0
// Signals that end the agent. They are caught until the process is gone: with the default action back in
// place, a second Ctrl-C would end it in the middle of what it takes back.

type Stop = (signal: NodeJS.Signals) => void;

export class StopSignals {
  #first: NodeJS.Signals | undefined;
  #stop: Stop | undefined = () => process.exit(0);

  /** From now on SIGTERM and SIGINT end the process with 0, until there is something to be stopped. */
  catch(): void {
    for (const signal of ['SIGTERM', 'SIGINT'] as const) this.#listen(signal);
  }

  /** The first signal from now on is kept for `stopWith`: a start that is ended halfway would leave what it has attached. */
  hold(more: readonly NodeJS.Signals[]): void {
    this.#stop = undefined;
    for (const signal of more) this.#listen(signal);
  }

  /** The first signal is given to `stop` as soon as there is one; further ones are ignored. */
  stopWith(stop: Stop): void {
    this.#stop = stop;
    if (this.#first !== undefined) stop(this.#first);
  }

  #listen(signal: NodeJS.Signals): void {
    process.on(signal, () => {
      if (this.#first !== undefined) return;
      this.#first = signal;
      this.#stop?.(signal);
    });
  }
}

/** Of this process, from its first line on. */
export const stopSignals = new StopSignals();

/** Not `run` with a flag for which it does one thing and ends: it must not say that this is done. */
export const isAgent = (args: readonly string[]): boolean =>
  commandName(args) === 'run' &&
  !args.some((argument) =>
    /^--(cleanup|init-only|write-config-to|version|help)(=|$)/.test(argument),
  );

/** The command that these arguments ask for; flags may stand before it. */
export const commandName = (args: readonly string[]): string | undefined =>
  args.find((argument) => !argument.startsWith('-'));
