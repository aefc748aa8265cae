pragma circom 2.1.6;
// Every wire is public: the key's C section is empty.
template OnlyPublic() {
    signal input a;
    signal input b;
    signal output c;
    c <== a * b;
}
component main {public [a, b]} = OnlyPublic();
