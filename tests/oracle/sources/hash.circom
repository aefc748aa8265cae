pragma circom 2.1.6;
include "poseidon.circom";
// circomlib's hash of two numbers with its result public.
template Hash() {
    signal input left;
    signal input right;
    signal output hash;
    component poseidon = Poseidon(2);
    poseidon.inputs[0] <== left;
    poseidon.inputs[1] <== right;
    hash <== poseidon.out;
}
component main = Hash();
