#!/bin/sh
# Makes the bundled circuit's files again: the proving key, two witnesses and the verification key.
#
#   npm ci --ignore-scripts && prover/circuits/make.sh
#
# Run anywhere; works in build/circuits and replaces merkle8.{zkey,wtns}, merkle8_other.wtns and
# merkle8_verification_key.json beside this script. The setup is random, so the key differs each time while the
# witnesses do not. Takes a minute at most. The toxic waste of this setup was known to one machine: the key
# is good for demonstrations and tests and for nothing of value.
set -eu
cd "$(dirname "$0")/../.."  # circom2 finds includes only from the folder that holds node_modules
work=build/circuits
here=prover/circuits
name=merkle8
snarkjs=node_modules/.bin/snarkjs
entropy() { od -An -N32 -tx1 /dev/urandom | tr -d ' \n'; }

mkdir -p "$work"
node_modules/.bin/circom2 "$here/$name.circom" --r1cs --wasm --O2 --prime bn128 \
    -l node_modules/circomlib/circuits -o "$work"
if [ ! -f "$work/p11.ptau" ]; then
    "$snarkjs" powersoftau new bn128 11 "$work/p0.ptau"
    # Without a contribution tau is 1.
    "$snarkjs" powersoftau contribute "$work/p0.ptau" "$work/p1.ptau" --name=provewire -e="$(entropy)"
    "$snarkjs" powersoftau prepare phase2 "$work/p1.ptau" "$work/p11.tmp.ptau"
    mv "$work/p11.tmp.ptau" "$work/p11.ptau"
fi
"$snarkjs" groth16 setup "$work/$name.r1cs" "$work/p11.ptau" "$work/fresh.zkey"
"$snarkjs" zkey contribute "$work/fresh.zkey" "$work/$name.zkey" --name=provewire -e="$(entropy)"
"$snarkjs" zkey verify "$work/$name.r1cs" "$work/p11.ptau" "$work/$name.zkey"
"$snarkjs" zkey export verificationkey "$work/$name.zkey" "$work/${name}_verification_key.json"
for input in "$name" "${name}_other"; do
    "$snarkjs" wtns calculate "$work/${name}_js/$name.wasm" "$here/${input}_input.json" "$work/$input.wtns"
    "$snarkjs" wtns check "$work/$name.r1cs" "$work/$input.wtns"
    cp "$work/$input.wtns" "$here/$input.wtns"
done
cp "$work/$name.zkey" "$work/${name}_verification_key.json" "$here/"
