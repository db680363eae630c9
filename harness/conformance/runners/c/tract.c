/* tract through its C API. A library with it is libtract.so, and the one in tract's package for Python.
 *
 *     cc -O1 -o run-tract runner.c pack.c judge.c tract.c -ldl -lm */
#define _GNU_SOURCE
#include "runtime.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

const char *const runtime_name = "tract";
static void *library_, *runnable;

/* tract's numbers of ONNX's types: bits for the kind, and the size. */
static const int types[] = {[1] = 0x34, [2] = 0x11, [3] = 0x21, [4] = 0x12, [5] = 0x22, [6] = 0x24, [7] = 0x28, [9] = 0x01,
                            [10] = 0x32, [11] = 0x38, [12] = 0x14, [13] = 0x18};
enum { TYPES = sizeof types / sizeof *types };

/* Calls a function that returns 0 if all is well, by its name. */
#define TRY(name, ...) do { if (((int (*)())dlsym(library_, name))(__VA_ARGS__)) return last_error(reason, room); } while (0)

/* The whole chain of causes as one line. */
static Ending last_error(char *reason, size_t room) {
    const char *said = ((const char *(*)(void))dlsym(library_, "tract_get_last_error"))();
    snprintf(reason, room, "%s", said ? said : "an error without a message");
    char *trace = strstr(reason, "Stack backtrace");
    if (trace) *trace = 0;
    for (char *at = reason; *at; at++) if (*at == '\n') *at = ' ';
    const char *limits[] = {"nimplemented", "not support", "Unsupported", "No implementation", "Unknown DatumType", "can not be typed"};
    for (size_t at = 0; at < sizeof limits / sizeof *limits; at++) if (strstr(reason, limits[at])) return UNSUPPORTED;
    return REFUSED;
}

const char *runtime_open(const char *library, char *version, size_t room) {
    library_ = dlopen(library, RTLD_LAZY | RTLD_LOCAL);
    if (!library_) return dlerror();
    const char *(*told)(void) = (const char *(*)(void))dlsym(library_, "tract_version");
    if (!told || !dlsym(library_, "tract_runnable_spawn_state")) return "the library has not the C API of tract";
    snprintf(version, room, "%s", told());
    return NULL;
}

Ending runtime_load(const char *model, char *reason, size_t room) {
    void *onnx, *loaded, *typed;
    TRY("tract_onnx_create", &onnx);
    TRY("tract_onnx_load", onnx, model, &loaded);
    TRY("tract_inference_model_into_model", &loaded, &typed);
    TRY("tract_model_into_runnable", &typed, &runnable);
    return OK;
}

Ending runtime_run(const Json *test, Tensor *inputs, int given, Tensor *outputs, int wanted, char *reason, size_t room) {
    (void)test;
    void *values[MOST_VALUES] = {0}, *results[MOST_VALUES] = {0}, *state;
    for (int at = 0; at < given; at++) {
        size_t shape[MOST_DIMENSIONS];
        if (inputs[at].type < 0) { snprintf(reason, room, "tract's C API is given tensors only"); return ABSENT; }
        int type = inputs[at].type < TYPES ? types[inputs[at].type] : 0;
        if (!type) { snprintf(reason, room, "tract's C API has no type %d", inputs[at].type); return UNSUPPORTED; }
        for (int axis = 0; axis < inputs[at].rank; axis++) shape[axis] = (size_t)inputs[at].dims[axis];
        TRY("tract_tensor_from_bytes", type, (size_t)inputs[at].rank, shape, inputs[at].data, &values[at]);
    }
    TRY("tract_runnable_spawn_state", runnable, &state);
    TRY("tract_state_run", state, values, results);
    for (int at = 0; at < wanted; at++) {
        int type = 0;
        size_t rank = 0;
        const size_t *shape;
        TRY("tract_tensor_as_bytes", results[at], &type, &rank, &shape, &outputs[at].data);
        for (int number = 1; number < TYPES; number++) if (types[number] == type) outputs[at].type = number;
        if (!outputs[at].type) { snprintf(reason, room, "this runner does not read tract's type 0x%x", type); return ABSENT; }
        outputs[at].rank = (int)rank;
        outputs[at].count = 1;
        for (size_t axis = 0; axis < rank && axis < MOST_DIMENSIONS; axis++) outputs[at].count *= (size_t)(outputs[at].dims[axis] = (int64_t)shape[axis]);
        outputs[at].bytes = bytes_of(outputs[at].type, outputs[at].count);
    }
    return OK;
}
