/* onnxruntime through its C API, from a library that is loaded when the runner starts.
 *
 * The functions of OrtApi never change their places, so that they are called by number: no header is needed. The
 * numbers are those of the order in onnxruntime_c_api.h. */
#define _GNU_SOURCE
#include "runtime.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    GET_ERROR_CODE = 1, GET_ERROR_MESSAGE = 2, CREATE_ENV = 3, CREATE_SESSION = 7, RUN = 9, CREATE_SESSION_OPTIONS = 10,
    SET_INTRA_OP_NUM_THREADS = 24, CREATE_TENSOR = 48, CREATE_TENSOR_WITH_DATA = 49, GET_DATA = 51,
    FILL_STRINGS = 52, GET_STRINGS_LENGTH = 53, GET_STRINGS = 54, GET_TYPE = 60, GET_RANK = 61, GET_DIMENSIONS = 62,
    GET_COUNT = 64, GET_TYPE_AND_SHAPE = 65, GET_KIND = 67, CREATE_CPU_MEMORY = 69, GET_ALLOCATOR = 78, GET_ITEM = 80, GET_ITEM_COUNT = 81,
    CREATE_SEQUENCE = 82, HAS_VALUE = 192,
    NOT_IMPLEMENTED = 9, ERROR_LEVEL = 3, API_VERSION = 16, KIND_OF_TENSOR = 1, KIND_OF_SEQUENCE = 2, KIND_OF_MAP = 3,
};
typedef struct { const void *(*get)(uint32_t version); const char *(*version)(void); } Base;
typedef void *Status;

const char *const runtime_name = "onnxruntime";
static void *const *api;
static void *env, *session;

/* Calls a function that returns a status, by its number. */
#define CALL(number, ...) ((Status(*)())api[number])(__VA_ARGS__)
#define TRY(number, ...) do { Status status = CALL(number, __VA_ARGS__); if (status) return ending_of(status, reason, room); } while (0)

static Ending ending_of(Status status, char *reason, size_t room) {
    snprintf(reason, room, "%s", ((const char *(*)(Status))api[GET_ERROR_MESSAGE])(status));
    if (((int (*)(Status))api[GET_ERROR_CODE])(status) == NOT_IMPLEMENTED) return UNSUPPORTED;
    const char *limits[] = {"is under development", "Unsupported model IR version", "not supported", "not support ", "registered or supported",
                            "Unsupported value attribute"};
    for (size_t at = 0; at < sizeof limits / sizeof *limits; at++) if (strstr(reason, limits[at])) return UNSUPPORTED;
    return REFUSED;
}

/* Its numbers of types are those of ONNX up to float4e2m1; of the next three, float8e8m0 is the last. */
static int its_type(int type) { return type == 24 ? 26 : type == 25 || type == 26 ? type - 1 : type; }
static int onnx_type(int type) { return type == 26 ? 24 : type == 24 || type == 25 ? type + 1 : type; }

const char *runtime_open(const char *library, char *version, size_t room) {
    void *loaded = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (!loaded) return dlerror();
    const Base *(*base)(void) = (const Base *(*)(void))dlsym(loaded, "OrtGetApiBase");
    if (!base) return "the library has no OrtGetApiBase";
    snprintf(version, room, "%s", base()->version());
    api = base()->get(API_VERSION);
    if (!api) return "the library is older than onnxruntime 1.16";
    /* Once, as it takes longer than most tests. It starts no thread, so that processes can be forked with it. */
    return CALL(CREATE_ENV, ERROR_LEVEL, "parity", &env) ? "onnxruntime has no environment" : NULL;
}

Ending runtime_load(const char *model, char *reason, size_t room) {
    void *options;
    TRY(CREATE_SESSION_OPTIONS, &options);
    TRY(SET_INTRA_OP_NUM_THREADS, options, 1);
    TRY(CREATE_SESSION, env, model, options, &session);
    return OK;
}

static Ending give(Tensor *tensor, void **value, char *reason, size_t room) {
    void *memory, *allocator;
    TRY(CREATE_CPU_MEMORY, 0, 0, &memory);
    if (tensor->type == NOTHING || (tensor->type == SEQUENCE && !tensor->count)) {
        snprintf(reason, room, "onnxruntime's C API makes no sequence without items, and no optional without a value");
        return ABSENT;
    }
    if (tensor->type == SEQUENCE || tensor->type == MAP) {
        void **items = calloc(tensor->count, sizeof *items);
        for (size_t at = 0; at < tensor->count; at++) {
            Ending ending = give(&tensor->items[at], &items[at], reason, room);
            if (ending != OK) return ending;
        }
        TRY(CREATE_SEQUENCE, (const void *const *)items, tensor->count, tensor->type == MAP ? KIND_OF_MAP : KIND_OF_SEQUENCE, value);
        return OK;
    }
    if (tensor->type != STRING) {
        TRY(CREATE_TENSOR_WITH_DATA, memory, tensor->data, tensor->bytes, tensor->dims, (size_t)tensor->rank, its_type(tensor->type), value);
        return OK;
    }
    TRY(GET_ALLOCATOR, &allocator);
    TRY(CREATE_TENSOR, allocator, tensor->dims, (size_t)tensor->rank, STRING, value);
    TRY(FILL_STRINGS, *value, tensor->strings, tensor->count);
    return OK;
}

static Ending take(void *value, Tensor *tensor, char *reason, size_t room) {
    void *info, *allocator;
    size_t rank = 0, length;
    int kind = 0, has_value = 0;
    TRY(HAS_VALUE, value, &has_value);
    if (!has_value) { tensor->type = NOTHING; return OK; }
    TRY(GET_KIND, value, &kind);
    if (kind == KIND_OF_SEQUENCE || kind == KIND_OF_MAP) { /* the items of a map are its keys, in ascending order, and its values */
        TRY(GET_ITEM_COUNT, value, &tensor->count);
        TRY(GET_ALLOCATOR, &allocator);
        tensor->type = kind == KIND_OF_MAP ? MAP : SEQUENCE;
        tensor->items = calloc(tensor->count + 1, sizeof *tensor->items);
        for (size_t at = 0; at < tensor->count; at++) {
            void *item;
            TRY(GET_ITEM, value, (int)at, allocator, &item);
            Ending ending = take(item, &tensor->items[at], reason, room);
            if (ending != OK) return ending;
        }
        return OK;
    }
    if (kind != KIND_OF_TENSOR) { tensor->type = OTHER; return OK; }
    TRY(GET_TYPE_AND_SHAPE, value, &info);
    TRY(GET_TYPE, info, &tensor->type);
    tensor->type = onnx_type(tensor->type);
    TRY(GET_RANK, info, &rank);
    if (rank > MOST_DIMENSIONS) { tensor->rank = (int)rank; return OK; }
    tensor->rank = (int)rank;
    TRY(GET_DIMENSIONS, info, tensor->dims, rank);
    TRY(GET_COUNT, info, &tensor->count);
    if (tensor->type != STRING) {
        tensor->bytes = bytes_of(tensor->type, tensor->count);
        TRY(GET_DATA, value, &tensor->data);
        return OK;
    }
    TRY(GET_STRINGS_LENGTH, value, &length);
    char *text = calloc(1, length + 1);
    size_t *offsets = calloc(tensor->count + 1, sizeof *offsets);
    TRY(GET_STRINGS, value, text, length, offsets, tensor->count);
    offsets[tensor->count] = length;
    tensor->strings = calloc(tensor->count + 1, sizeof(char *));
    for (size_t at = 0; at < tensor->count; at++)
        tensor->strings[at] = strndup(text + offsets[at], offsets[at + 1] - offsets[at]);
    return OK;
}

Ending runtime_run(const Json *test, Tensor *inputs, int given, Tensor *outputs, int wanted, char *reason, size_t room) {
    const char *names[MOST_VALUES], *asked[MOST_VALUES];
    void *values[MOST_VALUES] = {0}, *results[MOST_VALUES] = {0};
    const Json *each = member(test, "inputs")->child;
    for (int at = 0; at < given; at++, each = each->next) {
        names[at] = text_of(each, "name");
        Ending ending = give(&inputs[at], &values[at], reason, room);
        if (ending != OK) return ending;
    }
    each = member(test, "outputs")->child;
    for (int at = 0; at < wanted; at++, each = each->next) asked[at] = text_of(each, "name");
    TRY(RUN, session, NULL, names, values, (size_t)given, asked, (size_t)wanted, results);
    for (int at = 0; at < wanted; at++) {
        Ending ending = take(results[at], &outputs[at], reason, room);
        if (ending != OK) return ending;
    }
    return OK;
}
