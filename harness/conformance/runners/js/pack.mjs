// Reading a conformance pack: tensors, and the judgement of an output. docs/conformance.md has the format.

import { existsSync, readFileSync, readdirSync } from "node:fs";
import { dirname } from "node:path";

export const BFLOAT16 = 16, FLOAT = 1, FLOAT16 = 10, DOUBLE = 11, STRING = 8;
// The bytes of an element of each type; less than one where several share a byte.
const WIDTHS = [0, 4, 1, 1, 2, 2, 4, 8, 0, 1, 2, 8, 4, 8, 8, 16, 2, 1, 1, 1, 1, 1 / 2, 1 / 2, 1 / 2, 1, 1 / 4, 1 / 4, 3 / 4, 3 / 4];

// The types of numbers in ONNX's words.
const NAMES = ["", "float", "uint8", "int8", "uint16", "int16", "int32", "int64", "string", "bool", "float16", "double", "uint32", "uint64", "", "", "bfloat16"];

// The fields of a protobuf: pairs of the number, and a BigInt or the bytes.
function* fields(bytes) {
  let at = 0;
  const varint = () => {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      if (at >= bytes.length) throw new Error("the protobuf is cut off");
      const byte = bytes[at++];
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) return value;
    }
  };
  while (at < bytes.length) {
    const tag = Number(varint());
    const wire = tag & 7;
    if (wire === 0) yield [tag >> 3, varint()];
    else if (wire === 1 || wire === 5) at += wire === 1 ? 8 : 4;
    else if (wire === 2) {
      const length = Number(varint());
      if (at + length > bytes.length) throw new Error("the protobuf is cut off");
      yield [tag >> 3, bytes.subarray(at, (at += length))];
    } else throw new Error(`the protobuf has wire type ${wire}`);
  }
}

// A value of a type such as seq(tensor(float)): a tensor; `{ items }`, a sequence; `{ keys, items }`, a map, whose items are
// tensors in the ascending order of its keys, which are texts; or null, an optional without a value.
export function readValue(path, type) {
  return parseValue(readFileSync(path), type, path);
}

function parseValue(bytes, type, path) {
  if (type.startsWith("tensor(")) return parseTensor(bytes, path);
  if (type.startsWith("map(")) return parseMap(bytes, path);
  const inner = type.slice(type.indexOf("(") + 1, -1), items = [];
  for (const [field, value] of fields(bytes))
    if ((field === 3 || field === 5 || field === 6) && typeof value !== "bigint") items.push(parseValue(value, inner, path));
  return type.startsWith("seq(") ? { items } : items[0] ?? null;
}

function parseMap(bytes, path) {
  const map = { keys: [], items: [] };
  for (const [field, value] of fields(bytes)) {
    if (field === 3) map.keys.push(...(typeof value === "bigint" ? [value] : packed(value)).map((key) => String(BigInt.asIntN(64, BigInt(key)))));
    if (field === 4) map.keys.push(Buffer.from(value).toString("utf8"));
    if (field === 5) map.items = parseValue(value, "seq(tensor())", path).items;
  }
  if (map.keys.length !== map.items.length) throw new Error(`${path} has not a value for each key`);
  return map;
}

// A TensorProto: its type as ONNX's number, its sizes, and its bytes, or its strings.
function parseTensor(bytes, path) {
  const tensor = { type: 0, dims: [], data: new Uint8Array(0), strings: [] };
  for (const [field, value] of fields(bytes)) {
    if (field === 1) tensor.dims.push(...(typeof value === "bigint" ? [Number(value)] : packed(value)));
    if (field === 2) tensor.type = Number(value);
    if (field === 6) tensor.strings.push(Buffer.from(value).toString("utf8"));
    // A copy, so that typed arrays of wider elements may lie on it.
    if (field === 9) tensor.data = Uint8Array.from(value);
  }
  const held = tensor.type === STRING ? tensor.strings.length : tensor.data.length;
  if (held !== (tensor.type === STRING ? countOf(tensor) : bytesOf(tensor.type, countOf(tensor))))
    throw new Error(`${path} has not the bytes of its shape`);
  return tensor;
}

function packed(bytes) {
  const found = [];
  for (let at = 0; at < bytes.length; ) {
    let value = 0, factor = 1;
    for (; bytes[at] & 128; factor *= 128) value += (bytes[at++] & 127) * factor;
    found.push(value + bytes[at++] * factor);
  }
  return found;
}

export const countOf = (tensor) => tensor.dims.reduce((product, size) => product * size, 1);
export const bytesOf = (type, count) => Math.ceil(count * WIDTHS[type]);

const varint = (value) => {
  const bytes = [];
  for (; value >= 128; value = Math.floor(value / 128)) bytes.push((value % 128) | 128);
  return [...bytes, value];
};
const field = (number, bytes) => [Buffer.from([8 * number + 2, ...varint(bytes.length)]), bytes];

// The protobuf of a value, for outputs that are judged elsewhere.
export function writeValue(value, type) {
  if (type.startsWith("optional(")) {
    if (!value) return Buffer.from([16, 0]);
    const kind = value.items ? 3 : 1;
    return Buffer.concat([Buffer.from([16, kind]), ...field(kind === 3 ? 5 : 3, writeValue(value, type.slice(9, -1)))]);
  }
  if (value?.keys) return writeMap(value, type);
  if (value?.items) {
    const ofMaps = type.startsWith("seq(map(");
    return Buffer.concat([Buffer.from([16, ofMaps ? 4 : 1]), ...value.items.flatMap((item) => field(ofMaps ? 6 : 3, writeValue(item, type.slice(4, -1))))]);
  }
  if (!value) throw new Error("there is no value");
  const head = Buffer.from([...value.dims.flatMap((size) => [8, ...varint(size)]), 16, value.type]);
  const parts = value.type === STRING ? value.strings.flatMap((text) => field(6, Buffer.from(text, "utf8"))) : field(9, value.data);
  return Buffer.concat([head, ...parts]);
}

function writeMap({ keys, items }, type) {
  const isText = type.startsWith("map(string");
  const written = keys.flatMap((key) => (isText ? field(4, Buffer.from(key, "utf8")) : [Buffer.from([24, ...wide(key)])]));
  return Buffer.concat([Buffer.from([16, isText ? STRING : 7]), ...written, ...field(5, writeValue({ items }, "seq(tensor())"))]);
}

// An int64 as a varint: a negative one has ten bytes.
function wide(text) {
  const bytes = [];
  let value = BigInt.asUintN(64, BigInt(text));
  for (; value >= 128n; value >>= 7n) bytes.push(Number(value & 127n) | 128);
  return [...bytes, Number(value)];
}

// A float of at most 16 bits. `fn`: it has no infinities; `uz`: its only NaN is what would be minus zero.
function widen(bits, exponent, fraction, bias, fn = false, uz = false) {
  const sign = (bits >> (exponent + fraction)) & 1, e = (bits >> fraction) & ((1 << exponent) - 1), f = bits & ((1 << fraction) - 1);
  const top = (1 << exponent) - 1;
  let value = e ? (1 + f / 2 ** fraction) * 2 ** (e - bias) : f * 2 ** (1 - bias - fraction);
  if (uz && sign && !e && !f) return NaN;
  if (fn && !uz && e === top && f === (1 << fraction) - 1) return NaN;
  if (!fn && !uz && e === top) value = f ? NaN : Infinity;
  return sign ? -value : value;
}

const SMALL = {
  10: [5, 10, 15], 16: [8, 7, 127], 17: [4, 3, 7, true], 18: [4, 3, 8, true, true], 19: [5, 2, 15], 20: [5, 2, 16, true, true],
};

// A function from the place of an element to its value; null for types that are no floats.
function reader({ type, data }) {
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  if (type === FLOAT) return (at) => view.getFloat32(4 * at, true);
  if (type === DOUBLE) return (at) => view.getFloat64(8 * at, true);
  const small = SMALL[type];
  if (!small) return null;
  return WIDTHS[type] === 2 ? (at) => widen(view.getUint16(2 * at, true), ...small) : (at) => widen(view.getUint8(at), ...small);
}

// The same for integers and booleans, whose signs are in `data` too.
function integers({ type, data }) {
  const kinds = { 2: Uint8Array, 3: Int8Array, 4: Uint16Array, 5: Int16Array, 6: Int32Array, 7: BigInt64Array, 9: Uint8Array, 12: Uint32Array, 13: BigUint64Array };
  const found = new kinds[type](data.buffer, data.byteOffset, data.byteLength / WIDTHS[type]);
  return (at) => Number(found[at]);
}

function doubles(path, count) {
  const data = readFileSync(path);
  if (data.length !== 8 * count) throw new Error(`${path} has not ${count} numbers`);
  return reader({ type: DOUBLE, data });
}

// What differs in an output, or the empty string. `described` is the output in the manifest.
export function judge(got, folder, number, described) {
  if (described.judged === "distribution") return judgeDrawn(got, number, described);
  const want = readValue(`${folder}/output_${number}.pb`, described.type);
  const count = tensorsOf(want).reduce((sum, each) => sum + countOf(each), 0);
  const numbers = (name) => (described.judged === "elementwise" ? doubles(`${folder}/${name}_${number}.f64`, count) : undefined);
  const [centre, tolerance] = [numbers("centre"), numbers("tolerance")];
  const signIsOpen = described.open.includes("zero_sign");
  if (want?.type) return judgeTensor(got, want, 0, centre, tolerance, signIsOpen, `output ${number}`);
  if (!alike(got, want)) return `output ${number} is no ${describe(want)}`;
  let start = 0;
  for (const [item, [ours, theirs]] of zip(tensorsOf(got), tensorsOf(want)).entries()) {
    const difference = judgeTensor(ours, theirs, start, centre, tolerance, signIsOpen, `output ${number}, item ${item},`);
    if (difference) return difference;
    start += countOf(theirs);
  }
  return "";
}

const zip = (some, others) => some.map((each, at) => [each, others[at]]);
// The tensors in sequences and maps, in their order.
const tensorsOf = (value) => (value?.items ? value.items.flatMap(tensorsOf) : value ? [value] : []);
// Whether two values have the same form: tensors, sequences of as many items, maps of the same keys, or nothing.
const alike = (one, other) => !one === !other && one?.items?.length === other?.items?.length
  && JSON.stringify(one?.keys) === JSON.stringify(other?.keys) && (!one?.items || zip(one.items, other.items).every(([each, its]) => alike(each, its)));
const describe = (value) => (value?.keys ? `map of ${value.keys.length}` : value?.items ? `sequence of ${value.items.length}` : "optional without a value");

// `start` is the place of the first element in `centre` and `tolerance`, which are not there where elements must be equal.
function judgeTensor(got, want, start, centre, tolerance, signIsOpen, name) {
  if (got?.type !== want.type) return `${name} has type ${got?.type} instead of ${want.type}`;
  if (got.dims.join() !== want.dims.join()) return `${name} has shape [${got.dims}] instead of [${want.dims}]`;
  const count = countOf(want);
  const ours = reader(got), theirs = reader(want);
  if (!ours) {
    const width = count ? Math.max(1, Math.floor(want.data.length / count)) : 1;
    const alike = (at) => (want.type === STRING ? got.strings[at] === want.strings[at] : got.data[at] === want.data[at]);
    const at = Array.from({ length: want.type === STRING ? count : want.data.length }, (_, place) => place).find((place) => !alike(place));
    return at === undefined ? "" : `${name} differs at ${want.type === STRING ? at : Math.floor(at / width)}`;
  }
  for (let at = 0; at < count; at++) {
    const one = ours(at), other = theirs(at), place = start + at;
    if (Object.is(one, other) || (one === other && signIsOpen)) continue;
    if (centre && one !== other && isFinite(one) && isFinite(other) && Math.abs(one - centre(place)) <= tolerance(place)) continue;
    return `${name} at ${at}: ${one} instead of ${other}, tolerance ${centre ? tolerance(place).toExponential(2) : 0}`;
  }
  return "";
}

// An output that is drawn at random: it must have the type, the shape, the bounds, the mean and the deviation.
function judgeDrawn(got, number, { type, distribution }) {
  if (!got?.type || type !== `tensor(${NAMES[got.type]})` || got.dims.join() !== distribution.shape.join())
    return `output ${number} has another type or shape`;
  const count = countOf(got), read = reader(got) ?? integers(got);
  const values = Array.from({ length: count }, (_, at) => read(at));
  const mean = values.reduce((sum, each) => sum + each, 0) / count;
  const deviation = Math.sqrt(values.reduce((sum, each) => sum + (each - mean) ** 2, 0) / count);
  const { low, high } = distribution;
  const fits = values.every((each) => low <= each && each <= high) && Math.abs(mean - distribution.mean) <= distribution.mean_within
    && Math.abs(deviation - distribution.deviation) <= distribution.deviation_within;
  return fits || !count ? "" : `output ${number} has mean ${mean} and deviation ${deviation}, or elements outside of ${low} to ${high}`;
}

// The bytes of a model, for a runtime that is given no files, and so no weights that are beside it.
export function readModel(path) {
  if (readdirSync(dirname(path)).some((name) => name.startsWith("weights-")))
    throw Object.assign(new Error("this runner gives no weights that are beside the model"), { isOfRunner: true });
  return new Uint8Array(readFileSync(path));
}

// The manifest of a pack, and the SHA-256 that names it.
export function readPack(folder) {
  const fail = (why) => { throw new Error(`${folder}/manifest.json ${why}`); };
  if (!existsSync(`${folder}/manifest.json`)) fail("is not there.");
  let manifest;
  try {
    manifest = JSON.parse(readFileSync(`${folder}/manifest.json`, "utf8"));
  } catch {
    fail("is no JSON.");
  }
  if (manifest.format !== "onnx-parity-pack" || manifest.version !== 3) fail("is not of the format onnx-parity-pack, version 3.");
  return { tests: manifest.tests, digest: readFileSync(`${folder}/manifest.sha256`, "utf8").slice(0, 64) };
}
