/* A fake libnvidia-ml.so.1 for tests. Plays healthy cards, and whatever the scenario says: lost, hanging, crashing and
 * forbidden cards, sentinels, a driver of another version, MIG, XIDs. See scenario.h.
 */
#include "nvml.h"
#include "scenario.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define POLL_US 10000
#define MIB (1024ULL * 1024ULL)
#define ALL_ONES_32 4294967295U
#define ALL_ONES_64 18446744073709551615ULL
#define NOT_AVAILABLE_64 9223372036854775794ULL

struct card {
    int number; /* of the hardware; its index moves when another is not listed */
    int mig;    /* 1 + number of the MIG device, or 0 */
};

static struct card cards[CARDS];
static struct card mig_devices[CARDS][8];
static int ready;
static int xids_told;

/* Let the test know that a call hangs: by a file beside the scenario. */
static void mark_hanging(void) {
    char path[512];
    snprintf(path, sizeof path, "%s.hanging", getenv("FAKE_NVML_SCENARIO"));
    FILE *file = fopen(path, "w");
    if (file)
        fclose(file);
}

static void hang_or_crash(int card, const char *what) {
    char key[64];
    snprintf(key, sizeof key, "hang%s", what);
    if (scenario(card, key, 0))
        mark_hanging();
    while (scenario(card, key, 0)) {
        usleep(POLL_US);
        scenario_load();
    }
    snprintf(key, sizeof key, "crash%s", what);
    if (scenario(card, key, 0))
        *(volatile int *)0 = 1;
}

/* What every call to a card begins with. */
static result enter(device card, const char *function) {
    char key[64];
    if (!ready)
        return UNINITIALIZED;
    scenario_load();
    hang_or_crash(card->number, "");
    if (scenario(card->number, "lost", 0))
        return GPU_IS_LOST;
    if (scenario(card->number, "denied", 0) && strcmp(function, "GetUUID") && strcmp(function, "GetHandleByIndex"))
        return NO_PERMISSION;
    snprintf(key, sizeof key, "error.%s", function);
    return (result)scenario(card->number, key, SUCCESS);
}

#define ENTER(card, function)                                                                                          \
    do {                                                                                                               \
        result entered = enter(card, function);                                                                        \
        if (entered != SUCCESS)                                                                                        \
            return entered;                                                                                            \
    } while (0)

static unsigned value32(device card, const char *key, unsigned otherwise) {
    return scenario(card->number, "sentinels", 0) ? ALL_ONES_32 : (unsigned)scenario(card->number, key, otherwise);
}

static unsigned long long value64(device card, const char *key, unsigned long long otherwise) {
    if (scenario(card->number, "sentinels", 0))
        return card->number % 2 ? ALL_ONES_64 : NOT_AVAILABLE_64;
    return (unsigned long long)scenario(card->number, key, (long long)otherwise);
}

/* --- the library and the list of cards --- */

result nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    scenario_load();
    hang_or_crash(ALL_CARDS, ".init");
    result error = (result)scenario(ALL_CARDS, "init", SUCCESS);
    if (error != SUCCESS)
        return error;
    for (int i = 0; i < CARDS; i++) {
        cards[i].number = i;
        for (int m = 0; m < 8; m++)
            mig_devices[i][m] = (struct card){i, m + 1};
    }
    ready = 1;
    return SUCCESS;
}

result nvmlInit_v2(void) {
    return nvmlInitWithFlags(0);
}

result nvmlShutdown(void) {
    ready = 0;
    return SUCCESS;
}

const char *nvmlErrorString(result error) {
    switch (error) {
    case NOT_SUPPORTED:
        return "Not Supported";
    case NO_PERMISSION:
        return "Insufficient Permissions";
    case GPU_IS_LOST:
        return "GPU is lost";
    case MISMATCH:
        return "Driver/library version mismatch";
    default:
        return "Unknown Error";
    }
}

static result copy(char *to, unsigned size, const char *text) {
    if (strlen(text) >= size)
        return INSUFFICIENT_SIZE;
    strcpy(to, text);
    return SUCCESS;
}

result nvmlSystemGetDriverVersion(char *version, unsigned size) {
    return copy(version, size, "580.65.06");
}

result nvmlSystemGetNVMLVersion(char *version, unsigned size) {
    return copy(version, size, "13.580.65.06");
}

result nvmlSystemGetCudaDriverVersion_v2(int *version) {
    *version = 13000;
    return SUCCESS;
}

result nvmlDeviceGetCount_v2(unsigned *count) {
    scenario_load();
    hang_or_crash(ALL_CARDS, ".count");
    *count = 0;
    for (int i = 0; i < scenario(ALL_CARDS, "cards", 8) && i < CARDS; i++)
        *count += !scenario(i, "unlisted", 0);
    return SUCCESS;
}

result nvmlDeviceGetHandleByIndex_v2(unsigned index, device *card) {
    scenario_load();
    for (int i = 0; i < scenario(ALL_CARDS, "cards", 8) && i < CARDS; i++)
        if (!scenario(i, "unlisted", 0) && index-- == 0) {
            ENTER(&cards[i], "GetHandleByIndex");
            *card = &cards[i];
            return SUCCESS;
        }
    return INVALID_ARGUMENT;
}

/* --- who a card is --- */

result nvmlDeviceGetUUID(device card, char *uuid, unsigned size) {
    ENTER(card, "GetUUID");
    char text[96];
    if (card->mig)
        snprintf(text, sizeof text, "MIG-%08d-0000-0000-0000-%012d", card->number, card->mig - 1);
    else
        snprintf(text, sizeof text, "GPU-%08d-0000-0000-0000-000000000000", card->number);
    return copy(uuid, size, text);
}

result nvmlDeviceGetName(device card, char *name, unsigned size) {
    ENTER(card, "GetName");
    const char *told = getenv("FAKE_NVML_NAME");
    return copy(name, size, told ? told : "NVIDIA H200");
}

result nvmlDeviceGetPciInfo_v3(device card, struct pci_info *info) {
    ENTER(card, "GetPciInfo");
    memset(info, 0, sizeof *info);
    info->bus = 0x10 + (unsigned)card->number;
    snprintf(info->bus_id, sizeof info->bus_id, "00000000:%02X:00.0", info->bus);
    return SUCCESS;
}

result nvmlDeviceGetVbiosVersion(device card, char *version, unsigned size) {
    ENTER(card, "GetVbiosVersion");
    return copy(version, size, "96.00.BC.00.01");
}

result nvmlDeviceGetPersistenceMode(device card, unsigned *mode) {
    ENTER(card, "GetPersistenceMode");
    *mode = value32(card, "persistence", 1);
    return SUCCESS;
}

result nvmlDeviceGetMigMode(device card, unsigned *current, unsigned *pending) {
    ENTER(card, "GetMigMode");
    *current = *pending = value32(card, "mig", 0) > 0;
    if (scenario(card->number, "sentinels", 0))
        *current = ALL_ONES_32;
    return SUCCESS;
}

result nvmlDeviceGetMaxMigDeviceCount(device card, unsigned *count) {
    ENTER(card, "GetMaxMigDeviceCount");
    *count = 7;
    return SUCCESS;
}

result nvmlDeviceGetMigDeviceHandleByIndex(device card, unsigned index, device *mig) {
    ENTER(card, "GetMigDeviceHandleByIndex");
    if (index >= (unsigned)scenario(card->number, "mig", 0) || index >= 8)
        return NOT_FOUND;
    *mig = &mig_devices[card->number][index];
    return SUCCESS;
}

/* --- readings --- */

result nvmlDeviceGetMemoryInfo_v2(device card, struct memory_v2 *memory) {
    ENTER(card, "GetMemoryInfo_v2");
    memory->total = value64(card, "memory_total", 143771 * MIB);
    memory->reserved = value64(card, "memory_reserved", 600 * MIB);
    memory->used = value64(card, "memory_used", 1000 * MIB + 12345);
    memory->free = value64(card, "memory_free", 142171 * MIB);
    return SUCCESS;
}

result nvmlDeviceGetMemoryInfo(device card, struct memory *memory) {
    ENTER(card, "GetMemoryInfo");
    memory->total = value64(card, "memory_total", 143771 * MIB);
    memory->used = value64(card, "memory_used", 1600 * MIB);
    memory->free = value64(card, "memory_free", 142171 * MIB);
    return SUCCESS;
}

result nvmlDeviceGetUtilizationRates(device card, struct utilization *rates) {
    ENTER(card, "GetUtilizationRates");
    if (scenario(card->number, "mig", 0))
        return NOT_SUPPORTED;
    rates->gpu = value32(card, "utilization", 57);
    rates->memory = value32(card, "memory_utilization", 31);
    return SUCCESS;
}

static result codec(device card, const char *key, unsigned *used, unsigned *period) {
    if (scenario(card->number, "mig", 0))
        return NOT_SUPPORTED;
    *used = value32(card, key, 0);
    *period = 167000;
    return SUCCESS;
}

result nvmlDeviceGetEncoderUtilization(device card, unsigned *used, unsigned *period) {
    ENTER(card, "GetEncoderUtilization");
    return codec(card, "encoder", used, period);
}

result nvmlDeviceGetDecoderUtilization(device card, unsigned *used, unsigned *period) {
    ENTER(card, "GetDecoderUtilization");
    return codec(card, "decoder", used, period);
}

result nvmlDeviceGetClockInfo(device card, unsigned kind, unsigned *mhz) {
    ENTER(card, "GetClockInfo");
    *mhz = kind == 1 ? value32(card, "sm_clock", 1980) : value32(card, "memory_clock", 3201);
    return SUCCESS;
}

result nvmlDeviceGetTemperatureV(device card, struct temperature *temperature) {
    ENTER(card, "GetTemperatureV");
    temperature->celsius = (int)value32(card, "temperature", 41);
    return SUCCESS;
}

result nvmlDeviceGetTemperature(device card, unsigned sensor, unsigned *celsius) {
    (void)sensor;
    ENTER(card, "GetTemperature");
    *celsius = value32(card, "temperature", 41);
    return SUCCESS;
}

result nvmlDeviceGetPowerUsage(device card, unsigned *mw) {
    ENTER(card, "GetPowerUsage");
    *mw = value32(card, "power", 312345);
    return SUCCESS;
}

result nvmlDeviceGetEnforcedPowerLimit(device card, unsigned *mw) {
    ENTER(card, "GetEnforcedPowerLimit");
    *mw = value32(card, "power_limit", 700000);
    return SUCCESS;
}

result nvmlDeviceGetTotalEnergyConsumption(device card, unsigned long long *mj) {
    ENTER(card, "GetTotalEnergyConsumption");
    *mj = value64(card, "energy", 123456789012ULL);
    return SUCCESS;
}

result nvmlDeviceGetFanSpeed(device card, unsigned *percent) {
    ENTER(card, "GetFanSpeed");
    if (!scenario(card->number, "fan", 0))
        return NOT_SUPPORTED;
    *percent = value32(card, "fan", 0);
    return SUCCESS;
}

result nvmlDeviceGetCurrPcieLinkGeneration(device card, unsigned *generation) {
    ENTER(card, "GetCurrPcieLinkGeneration");
    *generation = value32(card, "pcie_generation", 5);
    return SUCCESS;
}

result nvmlDeviceGetCurrPcieLinkWidth(device card, unsigned *width) {
    ENTER(card, "GetCurrPcieLinkWidth");
    *width = value32(card, "pcie_width", 16);
    return SUCCESS;
}

result nvmlDeviceGetPcieReplayCounter(device card, unsigned *replays) {
    ENTER(card, "GetPcieReplayCounter");
    *replays = value32(card, "pcie_replays", 2);
    return SUCCESS;
}

result nvmlDeviceGetPcieThroughput(device card, unsigned which, unsigned *kib_per_s) {
    ENTER(card, "GetPcieThroughput");
    *kib_per_s = value32(card, which ? "pcie_rx" : "pcie_tx", which ? 5000 : 7000);
    return SUCCESS;
}

result nvmlDeviceGetFieldValues(device card, int count, struct field *fields) {
    ENTER(card, "GetFieldValues");
    for (int i = 0; i < count; i++) {
        fields[i].status = SUCCESS;
        fields[i].value.ull = 0;
        if (fields[i].id == FIELD_MEMORY_TEMPERATURE)
            fields[i].value.u = value32(card, "memory_temperature", 48);
        else if (fields[i].id == FIELD_PCIE_TX_BYTES && scenario(card->number, "pcie_counters", 0))
            fields[i].value.ull = value64(card, "pcie_tx_bytes", 0);
        else if (fields[i].id == FIELD_PCIE_RX_BYTES && scenario(card->number, "pcie_counters", 0))
            fields[i].value.ull = value64(card, "pcie_rx_bytes", 0);
        else
            fields[i].status = NOT_SUPPORTED;
    }
    return SUCCESS;
}

result nvmlDeviceGetNvLinkState(device card, unsigned link, unsigned *active) {
    ENTER(card, "GetNvLinkState");
    if (link >= 18)
        return INVALID_ARGUMENT;
    *active = link < (unsigned)scenario(card->number, "links", 18);
    return SUCCESS;
}

result nvmlDeviceGetCurrentClocksEventReasons(device card, unsigned long long *reasons) {
    ENTER(card, "GetCurrentClocksEventReasons");
    *reasons = value64(card, "throttle", 0);
    return SUCCESS;
}

result nvmlDeviceGetTotalEccErrors(device card, unsigned type, unsigned span, unsigned long long *errors) {
    static const char *keys[2][2] = {{"ecc_corrected", "ecc_corrected_aggregate"}, {"ecc", "ecc_aggregate"}};
    ENTER(card, "GetTotalEccErrors");
    *errors = value64(card, keys[type & 1][span & 1], 0);
    return SUCCESS;
}

result nvmlDeviceGetRemappedRows(device card, unsigned *corrected, unsigned *uncorrected, unsigned *pending,
                                 unsigned *failed) {
    ENTER(card, "GetRemappedRows");
    *corrected = value32(card, "remapped_corrected", 0);
    *uncorrected = value32(card, "remapped_uncorrected", 0);
    *pending = value32(card, "remap_pending", 0);
    *failed = value32(card, "remap_failed", 0);
    return SUCCESS;
}

result nvmlDeviceGetRetiredPages(device card, unsigned cause, unsigned *count, unsigned long long *addresses) {
    ENTER(card, "GetRetiredPages");
    unsigned pages = cause ? 0 : (unsigned)scenario(card->number, "retired_pages", 0);
    if (addresses && *count >= pages)
        for (unsigned i = 0; i < pages; i++)
            addresses[i] = 4096ULL * i;
    else if (pages) {
        *count = pages;
        return INSUFFICIENT_SIZE;
    }
    *count = pages;
    return SUCCESS;
}

result nvmlDeviceGetRetiredPagesPendingStatus(device card, unsigned *pending) {
    ENTER(card, "GetRetiredPagesPendingStatus");
    *pending = (unsigned)scenario(card->number, "pages_pending", 0);
    return SUCCESS;
}

result nvmlDeviceGetComputeRunningProcesses_v3(device card, unsigned *count, struct process *processes) {
    ENTER(card, "GetComputeRunningProcesses");
    unsigned running = (unsigned)scenario(card->number, "processes", 1);
    if (running && (!processes || *count < running)) {
        *count = running;
        return INSUFFICIENT_SIZE;
    }
    for (unsigned i = 0; i < running; i++)
        processes[i] = (struct process){1000 + i, value64(card, "process_memory", (i + 1) * 100 * MIB), 0, 0};
    *count = running;
    return SUCCESS;
}

result nvmlDeviceGetProcessUtilization(device card, struct process_sample *samples, unsigned *count,
                                       unsigned long long since) {
    ENTER(card, "GetProcessUtilization");
    if (scenario(card->number, "mig", 0))
        return NOT_SUPPORTED;
    if (!samples || *count < 1) {
        *count = 1;
        return INSUFFICIENT_SIZE;
    }
    samples[0] = (struct process_sample){1000, since + 1, value32(card, "process_sm", 44), 10, 0, 0};
    *count = 1;
    return SUCCESS;
}

/* --- events --- */

result nvmlEventSetCreate(void **set) {
    static int only;
    scenario_load();
    xids_told = scenario_xids(); /* nobody hears what was before */
    *set = &only;
    return (result)scenario(ALL_CARDS, "error.EventSetCreate", SUCCESS);
}

result nvmlDeviceRegisterEvents(device card, unsigned long long types, void *set) {
    (void)types;
    (void)set;
    ENTER(card, "RegisterEvents");
    return SUCCESS;
}

result nvmlEventSetWait_v2(void *set, struct event *event, unsigned timeout_ms) {
    int number;
    (void)set;
    (void)timeout_ms;
    scenario_load();
    if (!scenario_xid(xids_told, &number, &event->data))
        return TIMEOUT;
    xids_told++;
    event->card = &cards[number];
    event->type = XID_EVENT;
    return SUCCESS;
}

result nvmlEventSetFree(void *set) {
    (void)set;
    return SUCCESS;
}
