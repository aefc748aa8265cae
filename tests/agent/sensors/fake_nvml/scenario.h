/* What the fake library plays: a file of lines "CARD KEY VALUE", read anew at every call, so that a test can change it
 * while the library is loaded. CARD is a number, or * for all cards and for what belongs to none. Later lines win.
 */
#ifndef FAKE_NVML_SCENARIO_H
#define FAKE_NVML_SCENARIO_H

#define ALL_CARDS (-1)
#define CARDS 16

/* Read the file that FAKE_NVML_SCENARIO names. */
void scenario_load(void);

/* The value of a key for a card, or `otherwise`. */
long long scenario(int card, const char *key, long long otherwise);

/* XIDs are lines "CARD xid NUMBER" in the order they happen. How many there are, and the n-th of them. */
int scenario_xids(void);
int scenario_xid(int n, int *card, unsigned long long *xid);

#endif
