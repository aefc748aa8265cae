pragma circom 2.1.6;
// Inputs that no constraint uses, one of them public: their points are at infinity.
template Unused() {
    signal input x;
    signal input ignored;
    signal input ignored_public;
    signal input more[3];
    signal output y;
    signal square;
    square <== x * x;
    y <== square * x + 5;
}
component main {public [ignored_public]} = Unused();
