// A runtime of JavaScript, but wrong for one operator at one size: FAULT is a part of a test's id, such as
// Elu-22-float-2x3. RUNNERS is the folder of the adapters, and REAL names the one that is asked.
//
// In the output, the element of the largest magnitude is wrong by a tenth of a thousandth of it, an integer by one, and a
// half by 64 units in its last place.

const real = await import(`${process.env.RUNNERS}/${process.env.REAL}.mjs`);
export const { open, endingOf, name, tensorsOnly } = real;

export async function run(model, dataSets, inputs, outputs, folders, test) {
  const results = await real.run(model, dataSets, inputs, outputs, folders, test);
  if (model.includes(process.env.FAULT))
    for (const [{ type, data }] of results) {
      if (!data.length) continue;
      if (type !== 1 && type !== 11) {
        data[0] ^= type === 10 || type === 16 ? 64 : 1;
        continue;
      }
      const Elements = type === 1 ? Float32Array : Float64Array;
      const values = new Elements(data.buffer, data.byteOffset, data.byteLength / Elements.BYTES_PER_ELEMENT);
      let worst = 0;
      for (let at = 0; at < values.length; at++) if (Math.abs(values[at]) > Math.abs(values[worst])) worst = at;
      values[worst] = values[worst] ? values[worst] * 1.0001 : 1e-4;
    }
  return results;
}
