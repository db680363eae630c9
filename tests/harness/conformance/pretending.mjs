// A runtime that returns what is expected, but for the tests that PRETEND names: Elu-6-float-1=crashes Abs-6-int8-1=hangs

const told = process.env.PRETEND ?? "";
export const name = "pretending";
export const open = async ({ modules }) => {
  if (modules === "none") throw new Error("there is no library");
  return "1.0";
};
export const endingOf = (error) => ({ result: error.message.includes("declines") ? "unsupported" : "refused", reason: error.message });

export async function run(model, dataSets, inputs, outputs, folders, manifest) {
  const { readValue } = await import(`${process.env.RUNNERS}/pack.mjs`);
  const test = model.split("/").at(-2);
  const does = (what) => told.includes(`${test}=${what}`);
  if (does("refuses") || does("declines")) throw new Error(does("refuses") ? 'no "kernel"' : "declines it");
  if (does("crashes")) process.abort();
  if (does("exits")) process.exit(3);
  if (does("hangs")) await new Promise((done) => setTimeout(done, 60_000));
  const output = readValue(`${folders[0]}/output_0.pb`, manifest.outputs[0].type);
  let last = output;
  while (last?.items) last = last.items.at(-1);
  if (does("is-wrong")) last.data[3] ^= 1;
  if (does("other-type")) last.type = 7;
  if (does("other-shape")) last.dims[0] = 9;
  if (does("is-shorter")) output.items.pop();
  if (does("other-keys")) output.items[0].keys[0] += "9";
  if (does("is-nothing")) return [[null]];
  if (does("is-something")) return [[{ type: 1, dims: [0], data: new Uint8Array(0), strings: [] }]];
  return [[output]];
}
