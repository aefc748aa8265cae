pragma circom 2.1.6;
include "mimc.circom";
// circomlib's MiMC of 2 numbers.
component main = MultiMiMC7(2, 91);
