pragma circom 2.1.6;
include "eddsaposeidon.circom";
include "poseidon.circom";
// A signature, checked where `enabled` is 1; the hash that is signed is public, so that a signer can be told it.
template Signed() {
    signal input enabled;
    signal input key[2];
    signal input s;
    signal input r8[2];
    signal input message;
    signal output challenge;
    component hash = Poseidon(5);
    hash.inputs[0] <== r8[0];
    hash.inputs[1] <== r8[1];
    hash.inputs[2] <== key[0];
    hash.inputs[3] <== key[1];
    hash.inputs[4] <== message;
    challenge <== hash.out;
    component verifier = EdDSAPoseidonVerifier();
    verifier.enabled <== enabled;
    verifier.Ax <== key[0];
    verifier.Ay <== key[1];
    verifier.S <== s;
    verifier.R8x <== r8[0];
    verifier.R8y <== r8[1];
    verifier.M <== message;
}
component main {public [message]} = Signed();
