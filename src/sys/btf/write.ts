// SPDX-License-Identifier: Apache-2.0
// A table of BTF with a few structs and enums: what programs ask for of the kernel's, which has 150,000 types. Pure.

export interface StructMember {
  readonly name: string;
  /** Name of a struct before; undefined: a byte. */
  readonly struct?: string;
  readonly offsetBits: number;
  /** Of a bit field. */
  readonly widthBits?: number;
}

export interface WrittenStruct {
  readonly kind: 'struct';
  readonly name: string;
  readonly members: readonly StructMember[];
}

/** Values are not told: programs ask only whether they exist. */
export interface WrittenEnum {
  readonly kind: 'enum';
  readonly name: string;
  readonly enumerators: readonly string[];
}

export type WrittenType = WrittenStruct | WrittenEnum;

const MAGIC = 0x01eb9f;
const HEADER = 24;
const KIND = { int: 1, struct: 4, enum: 6 } as const;
/** Offsets of members have the width of bit fields in their upper byte. */
const HAS_BIT_FIELDS = 2 ** 31;
const BYTE_BITS = 8;
const BYTE_TYPE = 1;

const info = (kind: keyof typeof KIND, count: number): number => KIND[kind] * 2 ** 24 + count;

/** In the byte order of this machine, as libbpf expects it. */
export function writeBtf(types: readonly WrittenType[]): Uint8Array {
  let strings = '\0';
  const names = new Map<string, number>();
  const nameAt = (name: string): number => {
    const at = names.get(name) ?? strings.length;
    if (at === strings.length) strings += `${name}\0`;
    names.set(name, at);
    return at;
  };
  const ids = new Map<string, number>();
  const words = [nameAt('unsigned char'), info('int', 0), 1, BYTE_BITS];
  for (const [index, type] of types.entries()) {
    ids.set(type.name, BYTE_TYPE + 1 + index);
    words.push(
      ...(type.kind === 'enum' ? enumWords(type, nameAt) : structWords(type, nameAt, ids)),
    );
  }
  const size = words.length * 4;
  const head = [MAGIC, HEADER, 0, size, size, strings.length];
  return Buffer.concat([
    Buffer.from(Uint32Array.from([...head, ...words]).buffer),
    Buffer.from(strings, 'latin1'),
  ]);
}

type NameAt = (name: string) => number;

function structWords(
  { name, members }: WrittenStruct,
  nameAt: NameAt,
  ids: ReadonlyMap<string, number>,
): number[] {
  const ends = members.map(({ offsetBits, widthBits = BYTE_BITS }) => offsetBits + widthBits);
  return [
    nameAt(name),
    HAS_BIT_FIELDS + info('struct', members.length),
    Math.ceil(Math.max(...ends) / BYTE_BITS),
    ...members.flatMap(({ name: member, struct, offsetBits, widthBits = 0 }) => [
      nameAt(member),
      struct === undefined ? BYTE_TYPE : (ids.get(struct) ?? BYTE_TYPE),
      widthBits * 2 ** 24 + offsetBits,
    ]),
  ];
}

const enumWords = ({ name, enumerators }: WrittenEnum, nameAt: NameAt): number[] => [
  nameAt(name),
  info('enum', enumerators.length),
  4,
  ...enumerators.flatMap((one, value) => [nameAt(one), value]),
];
