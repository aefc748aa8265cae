pragma circom 2.1.6;

include "poseidon.circom";

// Proves that a leaf stands in a Merkle tree of DEPTH levels whose root is public, without saying which leaf.
//   leaf          private  the leaf's value
//   sibling[i]    private  the other child at level i, counted from the leaf
//   on_right[i]   private  1 where the running hash is the right child at level i, else 0
//   context       public   any number; the proof holds for this one only, so that nobody can reuse it elsewhere
//   root          public   the tree's root
template MerkleMembership(DEPTH) {
    signal input leaf;
    signal input sibling[DEPTH];
    signal input on_right[DEPTH];
    signal input context;
    signal output root;

    component node[DEPTH];
    signal running[DEPTH + 1];
    signal swap[DEPTH];

    running[0] <== leaf;
    for (var i = 0; i < DEPTH; i++) {
        on_right[i] * (on_right[i] - 1) === 0;
        swap[i] <== on_right[i] * (sibling[i] - running[i]);
        node[i] = Poseidon(2);
        node[i].inputs[0] <== running[i] + swap[i];
        node[i].inputs[1] <== sibling[i] - swap[i];
        running[i + 1] <== node[i].out;
    }
    root <== running[DEPTH];

    // A public input that no constraint uses could be changed after the proof is made.
    signal bound;
    bound <== context * context;
}

component main {public [context]} = MerkleMembership(8);
