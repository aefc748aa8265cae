pragma circom 2.1.6;
include "mimc.circom";
// circomlib's MiMC of 4 numbers.
component main = MultiMiMC7(4, 91);
