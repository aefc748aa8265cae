// Verifies proofs with snarkjs, all in one process: node verify_all.mjs snarkjs.cjs FOLDER... prints ok or wrong for each.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const [snarkjsPath, ...folders] = process.argv.slice(2);
const snarkjs = createRequire(import.meta.url)(snarkjsPath);
const read = (folder, name) => JSON.parse(readFileSync(`${folder}/${name}.json`, "utf8"));
for (const folder of folders) {
  const ok = await snarkjs.groth16.verify(read(folder, "vkey"), read(folder, "public"), read(folder, "proof"));
  console.log(ok ? "ok" : "wrong");
}
process.exit(0);
