// Tensors of a pack as those of onnxruntime's JavaScript API, in Node and in a browser.

const TYPES = {
  1: ["float32", Float32Array], 2: ["uint8", Uint8Array], 3: ["int8", Int8Array], 4: ["uint16", Uint16Array],
  5: ["int16", Int16Array], 6: ["int32", Int32Array], 7: ["int64", BigInt64Array], 9: ["bool", Uint8Array],
  10: ["float16", globalThis.Float16Array ?? Uint16Array], 11: ["float64", Float64Array], 12: ["uint32", Uint32Array],
  13: ["uint64", BigUint64Array], 21: ["uint4", Uint8Array], 22: ["int4", Int8Array],
};

export const tensorsOnly = true;

// What an error says that is only a limit of the runtime.
const SAYS_SO = /Could not find an implementation|NOT_IMPLEMENTED|is under development|Unsupported model IR version|has no type|ERROR_CODE: 9|not support(ed)? |not supported|registered or supported|Unsupported value attribute/;
export const endingOf = (error) => ({
  result: error.isOfRunner ? "absent" : SAYS_SO.test(error.message) ? "unsupported" : "refused",
  reason: error.message.split("\n")[0],
});

export function toOrt(ort, { type, dims, data, strings }) {
  if (type === 8) return new ort.Tensor("string", strings, dims);
  if (!TYPES[type]) throw new Error(`onnxruntime's JavaScript API has no type ${type}`);
  const [name, Elements] = TYPES[type];
  return new ort.Tensor(name, new Elements(data.buffer, data.byteOffset, data.byteLength / Elements.BYTES_PER_ELEMENT), dims);
}

export function fromOrt(tensor) {
  if (tensor.type === "string") return { type: 8, dims: [...tensor.dims], data: new Uint8Array(0), strings: [...tensor.data] };
  const type = Number(Object.keys(TYPES).find((number) => TYPES[number][0] === tensor.type) ?? -1);
  const { buffer, byteOffset, byteLength } = tensor.data;
  return { type, dims: [...tensor.dims], data: new Uint8Array(buffer, byteOffset, byteLength), strings: [] };
}

// Run a model: `model` is what `ort` can load. The outputs, in the order of their names.
export async function runOrt(ort, model, options, dataSets, names, outputs) {
  const session = await ort.InferenceSession.create(model, options);
  const results = [];
  for (const inputs of dataSets) {
    const feeds = Object.fromEntries(names.map((name, at) => [name, toOrt(ort, inputs[at])]));
    const found = await session.run(feeds, outputs);
    results.push(outputs.map((name) => fromOrt(found[name])));
  }
  await session.release();
  return results;
}
