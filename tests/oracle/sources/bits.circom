pragma circom 2.1.6;
include "bitify.circom";
// The bits of a number: a witness of zeros and ones.
template Bits() {
    signal input value;
    signal output ones;
    component bits = Num2Bits(50);
    bits.in <== value;
    var sum = 0;
    for (var i = 0; i < 50; i++) sum += bits.out[i];
    ones <== sum;
}
component main = Bits();
