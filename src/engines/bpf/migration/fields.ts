// SPDX-License-Identifier: Apache-2.0
// Keys and values of one layout -> those of another, field by field, by their names: what both have is kept,
// what only the new one has is 0. A field that changes its meaning must therefore change its name.

/** As BpfObject.mapLayout writes them: `path bit width`, separated by commas. */
export interface Side {
  readonly fields: string;
  readonly bytes: number;
}

interface Field {
  readonly name: string;
  readonly bit: number;
  readonly bits: number;
}

/** Throws RangeError if a number does not fit into its new width. */
export type Convert = (bytes: Uint8Array) => Uint8Array;

export function converter(from: Side, to: Side): Convert {
  if (from.fields === to.fields && from.bytes === to.bytes) return (bytes) => bytes;
  const source = new Map(parseFields(from.fields).map((field) => [field.name, field]));
  const moves = parseFields(to.fields).flatMap((field) => {
    const old = source.get(field.name);
    return old === undefined || isPadding(field.name) ? [] : [move(old, field)];
  });
  return (bytes) => {
    const converted = new Uint8Array(to.bytes);
    for (const each of moves) each(bytes, converted);
    return converted;
  };
}

/** Where a field is; undefined: there is none whose name ends so. */
export function fieldAt(
  { fields }: Side,
  ending: RegExp,
): { readonly at: number; readonly bytes: number } | undefined {
  const found = parseFields(fields).find(({ name }) => ending.test(name));
  return found && { at: found.bit / 8, bytes: found.bits / 8 };
}

export function parseFields(text: string): readonly Field[] {
  if (text === '') return [];
  return text.split(',').map((one) => {
    const [name = '', bit, bits] = one.split(' ');
    return { name, bit: Number(bit), bits: Number(bits) };
  });
}

const isPadding = (name: string): boolean => /(?:^|[.\]])pad\d*$/.test(name);

type Move = (from: Uint8Array, to: Uint8Array) => void;

function move(from: Field, to: Field): Move {
  const isWhole = [from.bit, from.bits, to.bit, to.bits].every((bits) => bits % 8 === 0);
  return isWhole ? moveBytes(from, to) : moveBits(from, to);
}

/** Numbers are little-endian, texts are padded with zeros: both grow at their end. */
function moveBytes(from: Field, to: Field): Move {
  const [at, width] = [from.bit / 8, from.bits / 8];
  const [start, room] = [to.bit / 8, to.bits / 8];
  const kept = Math.min(width, room);
  return (source, target) => {
    for (let byte = 0; byte < kept; byte += 1) target[start + byte] = source[at + byte] ?? 0;
    for (let byte = kept; byte < width; byte += 1) if (source[at + byte] !== 0) refuse(from, to);
  };
}

function moveBits(from: Field, to: Field): Move {
  return (source, converted) => {
    for (let index = 0; index < from.bits; index += 1) {
      const bit = from.bit + index;
      const isSet = ((source[bit >> 3] ?? 0) >> (bit & 7)) & 1;
      if (isSet === 0) continue;
      if (index >= to.bits) refuse(from, to);
      const target = to.bit + index;
      converted[target >> 3] = (converted[target >> 3] ?? 0) | (1 << (target & 7));
    }
  };
}

function refuse({ name }: Field, { bits }: Field): never {
  throw new RangeError(`a value of ${name} does not fit into ${bits} bits`);
}
