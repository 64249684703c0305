// SPDX-License-Identifier: Apache-2.0
// Where things stand in a YAML or JSON text. Only used to explain errors: the values themselves come
// from read.ts, which keeps no positions.
import { CORE_SCHEMA, loadAll, type State } from 'js-yaml';
import { withoutTabs } from './read.ts';

/** Steps into a document: keys of mappings and positions in lists, e.g. `['spec', 'ports', 0]`. */
type FieldPath = readonly (string | number)[];

/** One document, or one item of a list document. Line and column count from 0. */
interface Span {
  readonly start: number;
  readonly end: number;
  readonly line: number;
  readonly column: number;
}

/** A node that is being read, as far as its place is known before its content is. */
interface Frame {
  readonly parent: Frame | undefined;
  /** Position among the parent's nodes; a mapping's nodes are key, value, key, value. */
  readonly index: number;
  /** The node read just before this one: of a mapping's value, its key. */
  readonly previous: { readonly value: unknown; readonly line: number } | undefined;
  readonly span: Omit<Span, 'end'>;
}

/** True if the node is what `step` leads to from its parent. */
function isStep(frame: Frame, step: string | number): boolean {
  if (typeof step === 'number') return frame.index === step;
  return frame.index % 2 === 1 && String(frame.previous?.value) === step;
}

/** One node on the way from the document to where the parser is, and what was read inside it so far. */
interface Level {
  readonly frame: Frame;
  children: number;
  last: Frame['previous'];
  /** True if the parser reads the same node a second time: see isSameNode. */
  readonly isEcho: boolean;
}

/** Reads the text once and calls back at the start and the end of every node. */
function trace(
  text: string,
  onOpen: (frame: Frame) => void,
  onClose: (frame: Frame, end: number) => void,
): void {
  const root: Pick<Level, 'children' | 'last'> = { children: 0, last: undefined };
  const levels: Level[] = [];

  const open = (state: State): void => {
    const above = levels.at(-1);
    const counter = above ?? root;
    const { position: start, line } = state;
    const frame: Frame = {
      parent: above?.frame,
      index: counter.children,
      previous: counter.last,
      span: { start, line, column: start - state.lineStart },
    };
    counter.children += 1;
    const isEcho = isSameNode(state.input, frame);
    levels.push({
      frame: isEcho ? (frame.parent ?? frame) : frame,
      children: 0,
      last: undefined,
      isEcho,
    });
    if (!isEcho) onOpen(frame);
  };
  const close = (state: State): void => {
    const closed = levels.pop();
    if (closed === undefined) return;
    const { frame } = closed;
    (levels.at(-1) ?? root).last = { value: state.result, line: frame.span.line };
    if (!closed.isEcho) onClose(frame, state.position);
  };
  try {
    loadAll(text, undefined, {
      schema: CORE_SCHEMA,
      listener: (event, state) => (event === 'open' ? open(state) : close(state)),
    });
  } catch {
    // The parser already reported it; what was read before the error still has a place.
  }
}

/**
 * The parser takes `{...}` and `[...]` in block context for the possible key of a mapping and so opens
 * them twice: then nothing but white space lies between the beginnings of node and first child.
 */
function isSameNode(input: string, { parent, index, span }: Frame): boolean {
  if (parent === undefined || index !== 0 || !'{['.includes(input.charAt(span.start))) return false;
  return input.slice(parent.span.start, span.start).trim() === '';
}

/** All objects by address: `2` for the third document, `2.5` for the sixth of its items. */
function spansOf(text: string): ReadonlyMap<string, Span> {
  const spans = new Map<string, Span>();
  trace(
    text,
    () => {},
    (frame, end) => {
      const above = frame.parent;
      const top = above?.parent;
      if (above === undefined) {
        spans.set(`${frame.index}`, { ...frame.span, end });
      } else if (top !== undefined && top.parent === undefined && isStep(above, 'items')) {
        spans.set(`${top.index}.${frame.index}`, { ...frame.span, end });
      }
    },
  );
  return spans;
}

/** The line, from 1, where the longest existing prefix of the path begins inside the span. */
function lineOf(text: string, span: Span, path: FieldPath): number {
  const matched = new Map<Frame, number>();
  let best = { steps: 0, line: 0 };
  // Spaces stand for what is before it on its first line: indentation must stay what it was.
  trace(
    ' '.repeat(span.column) + text.slice(span.start, span.end),
    (frame) => {
      if (frame.parent === undefined) {
        matched.set(frame, 0);
        return;
      }
      const steps = matched.get(frame.parent);
      const step = steps === undefined ? undefined : path[steps];
      if (steps === undefined || step === undefined || !isStep(frame, step)) return;
      matched.set(frame, steps + 1);
      const { line } = typeof step === 'string' ? (frame.previous ?? frame.span) : frame.span;
      if (steps + 1 > best.steps) best = { steps: steps + 1, line };
    },
    () => {},
  );
  return span.line + best.line + 1;
}

/** `spec.ports[0].port` and `metadata.labels["a.b/c"]` as steps. */
function pathOf(field: string): FieldPath {
  const steps: (string | number)[] = [];
  for (const match of field.matchAll(/\[(\d+)\]|\["([^"]*)"\]|([^.[\]]+)/g)) {
    steps.push(match[1] === undefined ? (match[2] ?? match[3] ?? '') : Number(match[1]));
  }
  return steps;
}

/**
 * Answers, for an object's address (`2` or `2.5`) and a field, the line from 1 of the longest part of
 * the field that exists; undefined if there is no such object. The text is read at the first question.
 */
export function lineFinder(
  original: string,
): (at: string, field: string | FieldPath) => number | undefined {
  const text = withoutTabs(original);
  let spans: ReadonlyMap<string, Span> | undefined;
  return (at, field) => {
    spans ??= spansOf(text);
    const span = spans.get(at);
    return span === undefined
      ? undefined
      : lineOf(text, span, typeof field === 'string' ? pathOf(field) : field);
  };
}
