pragma circom 2.1.6;
// One constraint and nothing public: the smallest domain there is, two rows.
template TwoRows() {
    signal input a;
    signal input b;
    a * b === 33;
}
component main = TwoRows();
