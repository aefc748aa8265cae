#include "scenario.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINES 4096

struct line {
    int card;
    char key[64];
    long long value;
};

static struct line lines[LINES];
static int count;

void scenario_load(void) {
    const char *path = getenv("FAKE_NVML_SCENARIO");
    FILE *file = path ? fopen(path, "r") : NULL;
    char text[256], card[16];

    count = 0;
    if (!file)
        return;
    while (count < LINES && fgets(text, sizeof text, file)) {
        struct line *line = &lines[count];
        if (sscanf(text, "%15s %63s %lld", card, line->key, &line->value) == 3) {
            line->card = strcmp(card, "*") ? atoi(card) : ALL_CARDS;
            count++;
        }
    }
    fclose(file);
}

long long scenario(int card, const char *key, long long otherwise) {
    for (int i = count - 1; i >= 0; i--)
        if ((lines[i].card == card || lines[i].card == ALL_CARDS) && !strcmp(lines[i].key, key))
            return lines[i].value;
    return otherwise;
}

int scenario_xids(void) {
    int xids = 0;
    for (int i = 0; i < count; i++)
        xids += !strcmp(lines[i].key, "xid");
    return xids;
}

int scenario_xid(int n, int *card, unsigned long long *xid) {
    for (int i = 0; i < count; i++)
        if (!strcmp(lines[i].key, "xid") && n-- == 0) {
            *card = lines[i].card;
            *xid = (unsigned long long)lines[i].value;
            return 1;
        }
    return 0;
}
