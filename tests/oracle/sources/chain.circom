pragma circom 2.1.6;
// Squares and inverses: values of full width in every wire, none of them public but the last.
template Chain(STEPS) {
    signal input start;
    signal input constants[2];
    signal output last;
    signal value[STEPS + 1];
    signal inverse[STEPS];
    value[0] <== start;
    for (var i = 0; i < STEPS; i++) {
        inverse[i] <-- 1 / (value[i] + constants[0]);
        inverse[i] * (value[i] + constants[0]) === 1;
        value[i + 1] <== inverse[i] * value[i] + constants[1] - 1;
    }
    last <== value[STEPS];
}
component main {public [constants]} = Chain(13);
