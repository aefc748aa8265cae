// Runs calls of snarkjs's library one after the other in one process: node steps.mjs snarkjs.cjs < steps.json
//
// A step is {call: "zKey.newZKey", args: [...], out: "file"}; an argument {file: "x.json"} stands for what that file
// holds, {curve: "bn128"} for a curve. What a call returns is written to `out` where one is named, else printed as a
// line of JSON.
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";

const snarkjs = createRequire(import.meta.url)(process.argv[2]);
const argument = async (given) => {
  if (given?.file !== undefined) return JSON.parse(readFileSync(given.file, "utf8"));
  return given?.curve !== undefined ? snarkjs.curves.getCurveFromName(given.curve) : given;
};
const text = (value) => JSON.stringify(value ?? null, (_, item) => (typeof item === "bigint" ? `${item}` : item));
for (const { call, args, out } of JSON.parse(readFileSync(0, "utf8"))) {
  const [group, name] = call.split(".");
  const found = text(await snarkjs[group][name](...(await Promise.all(args.map(argument)))));
  if (out === undefined) console.log(found);
  else writeFileSync(out, found);
}
process.exit(0);
