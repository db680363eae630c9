/* Reading a conformance pack: JSON, tensors, and the judgement of an output. */
#include "pack.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char *read_file(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    if (!file) return NULL;
    fseek(file, 0, SEEK_END);
    long length = ftell(file);
    char *text = length < 0 ? NULL : malloc((size_t)length + 1);
    rewind(file);
    if (text && fread(text, 1, (size_t)length, file) != (size_t)length) { free(text); text = NULL; }
    fclose(file);
    if (text) { text[length] = 0; if (size) *size = (size_t)length; }
    return text;
}

/* --- JSON --------------------------------------------------------------------------------------------------------- */

static char *skip(char *at) { while (isspace((unsigned char)*at)) at++; return at; }

/* Undo the escapes of a string in its place. Characters beyond ASCII stay as they are. */
static char *parse_string(char *at, char **text) {
    char *to = *text = ++at;
    while (*at && *at != '"') {
        if (*at != '\\') { *to++ = *at++; continue; }
        at++;
        if (*at == 'u') { unsigned code; if (sscanf(at + 1, "%4x", &code) != 1) return NULL; *to++ = code < 128 ? (char)code : '?'; at += 5; }
        else if (*at) { const char *found = strchr("n\nt\tr\rb\bf\f", *at); *to++ = found ? found[1] : *at; at++; }
    }
    if (!*at) return NULL;
    *to = 0;
    return at + 1;
}

static char *parse_value(char *at, Json **value, int depth) {
    at = skip(at);
    Json *made = *value = calloc(1, sizeof *made);
    if (depth > 64 || !made) return NULL;
    made->kind = *at;
    if (*at == '"') return parse_string(at, &made->text);
    if (*at != '{' && *at != '[') {
        made->kind = '0';
        made->text = at;
        while (*at && !strchr(",]} \n\r\t", *at)) at++;
        return at == made->text ? NULL : at; /* ended below, once what follows has been read */
    }
    char end = *at == '{' ? '}' : ']';
    Json **last = &made->child;
    for (at = skip(at + 1); *at != end;) {
        char *key = NULL;
        if (end == '}') {
            if (*at != '"' || !(at = parse_string(at, &key)) || *(at = skip(at)) != ':') return NULL;
            at++;
        }
        if (!(at = parse_value(at, last, depth + 1))) return NULL;
        char *after = at, found = *(at = skip(at));
        if (found != ',' && found != end) return NULL;
        if ((*last)->kind == '0') *after = 0; /* ends a number */
        (*last)->key = key;
        last = &(*last)->next;
        if (found == end) break;
        at = skip(at + 1);
    }
    return at + 1;
}

Json *parse_json(char *text) {
    Json *value = NULL;
    return text && parse_value(text, &value, 0) ? value : NULL;
}

Json *member(const Json *object, const char *key) {
    for (Json *each = object ? object->child : NULL; each; each = each->next)
        if (each->key && !strcmp(each->key, key)) return each;
    return NULL;
}

const char *text_of(const Json *object, const char *key) {
    const Json *found = member(object, key);
    return found && found->text ? found->text : "";
}

int holds(const Json *array, const char *text) {
    for (const Json *each = array ? array->child : NULL; each; each = each->next)
        if (!strcmp(each->key ? each->key : each->text ? each->text : "", text)) return 1;
    return 0;
}

/* --- tensors ------------------------------------------------------------------------------------------------------ */

size_t bytes_of(int type, size_t count) {
    static const unsigned char widths[] = {0, 4, 1, 1, 2, 2, 4, 8, 0, 1, 2, 8, 4, 8, 8, 16, 2, 1, 1, 1, 1};
    if (type > 0 && type < (int)sizeof widths) return count * widths[type];
    if (type >= 21 && type <= 23) return (count + 1) / 2; /* uint4, int4, float4e2m1 */
    return type == 25 || type == 26 ? (count + 3) / 4 : count; /* uint2, int2; float8e8m0 */
}

static const unsigned char *read_varint(const unsigned char *at, const unsigned char *end, uint64_t *value) {
    *value = 0;
    for (int shift = 0; at < end && shift < 64; shift += 7) {
        *value |= (uint64_t)(*at & 127) << shift;
        if (!(*at++ & 128)) return at;
    }
    return NULL;
}

int read_tensor(const char *path, Tensor *tensor) {
    size_t size, strings = 0;
    const unsigned char *at = (unsigned char *)read_file(path, &size), *end = at + size;
    memset(tensor, 0, sizeof *tensor);
    if (!at) return 0;
    while (at < end) {
        uint64_t tag, value;
        if (!(at = read_varint(at, end, &tag))) return 0;
        int field = (int)(tag >> 3), wire = (int)(tag & 7);
        if (wire == 5 || wire == 1) { at += wire == 5 ? 4 : 8; continue; }
        if (!(at = read_varint(at, end, &value))) return 0;
        if (wire == 0) {
            if (field == 1 && tensor->rank < MOST_DIMENSIONS) tensor->dims[tensor->rank++] = (int64_t)value;
            if (field == 2) tensor->type = (int)value;
        } else if (wire != 2 || value > (uint64_t)(end - at)) {
            return 0;
        } else {
            if (field == 1)
                for (const unsigned char *one = at; one && one < at + value && tensor->rank < MOST_DIMENSIONS;) {
                    uint64_t dim;
                    if (!(one = read_varint(one, at + value, &dim))) return 0;
                    tensor->dims[tensor->rank++] = (int64_t)dim;
                }
            if (field == 9) { tensor->data = (unsigned char *)at; tensor->bytes = value; }
            if (field == 6) {
                tensor->strings = realloc(tensor->strings, (strings + 1) * sizeof(char *));
                tensor->strings[strings++] = strndup((const char *)at, value);
            }
            at += value;
        }
    }
    tensor->count = 1;
    for (int axis = 0; axis < tensor->rank; axis++) tensor->count *= (size_t)tensor->dims[axis];
    return tensor->type == STRING ? strings == tensor->count : tensor->bytes == bytes_of(tensor->type, tensor->count);
}

/* --- judging ------------------------------------------------------------------------------------------------------ */

static int is_float(int type) {
    return type == FLOAT || type == FLOAT16 || type == DOUBLE || (type >= BFLOAT16 && type <= FLOAT8E5M2FNUZ);
}

/* A float of at most 16 bits: its bits of exponent and fraction, and its exponent's bias. Those that end in FN have no
 * infinities, and those in UZ one NaN, which is what would be minus zero. */
static double widen(unsigned bits, int exponent, int fraction, int bias, int fn, int uz) {
    unsigned sign = bits >> (exponent + fraction) & 1, e = bits >> fraction & ((1u << exponent) - 1);
    unsigned f = bits & ((1u << fraction) - 1), top = (1u << exponent) - 1;
    double value = e ? ldexp(1.0 + ldexp(f, -fraction), (int)e - bias) : ldexp(f, 1 - bias - fraction);
    if (uz && sign && !e && !f) return NAN;
    if (fn && !uz && e == top && f == (1u << fraction) - 1) return NAN;
    if (!fn && !uz && e == top) value = f ? NAN : INFINITY;
    return sign ? -value : value;
}

static double element(const Tensor *tensor, size_t at) {
    const unsigned char *data = tensor->data;
    unsigned half = tensor->type == FLOAT16 || tensor->type == BFLOAT16 ? data[2 * at] | data[2 * at + 1] << 8 : data[at];
    float single;
    double wide;
    switch (tensor->type) {
    case FLOAT: memcpy(&single, data + 4 * at, 4); return single;
    case DOUBLE: memcpy(&wide, data + 8 * at, 8); return wide;
    case FLOAT16: return widen(half, 5, 10, 15, 0, 0);
    case BFLOAT16: return widen(half, 8, 7, 127, 0, 0);
    case FLOAT8E4M3FN: return widen(half, 4, 3, 7, 1, 0);
    case FLOAT8E4M3FN + 1: return widen(half, 4, 3, 8, 1, 1);
    case FLOAT8E4M3FN + 2: return widen(half, 5, 2, 15, 0, 0);
    default: return widen(half, 5, 2, 16, 1, 1);
    }
}

int judge(const Tensor *got, const char *folder, int number, const Json *described, char *reason, size_t room) {
    char path[4096];
    Tensor want;
    snprintf(path, sizeof path, "%s/output_%d.pb", folder, number);
    if (!read_tensor(path, &want)) { snprintf(reason, room, "%s cannot be read", path); return 0; }
    if (got->type != want.type || got->rank != want.rank || memcmp(got->dims, want.dims, sizeof(int64_t) * (size_t)want.rank)) {
        snprintf(reason, room, "output %d has type %d and rank %d, or other sizes, in place of type %d and rank %d", number,
                 got->type, got->rank, want.type, want.rank);
        return 0;
    }
    double *centre = NULL, *tolerance = NULL;
    if (!strcmp(text_of(described, "judged"), "elementwise")) {
        size_t size;
        snprintf(path, sizeof path, "%s/centre_%d.f64", folder, number);
        centre = (double *)read_file(path, &size);
        snprintf(path, sizeof path, "%s/tolerance_%d.f64", folder, number);
        tolerance = (double *)read_file(path, &size);
        if (!centre || !tolerance || size != 8 * want.count) { snprintf(reason, room, "%s cannot be read", path); return 0; }
    }
    int sign_is_open = holds(member(described, "open"), "zero_sign");
    size_t width = want.count ? want.bytes / want.count : 0; /* 0 where several elements share a byte */
    for (size_t at = 0; at < want.count; at++) {
        if (want.type == STRING) {
            if (!strcmp(got->strings[at], want.strings[at])) continue;
            snprintf(reason, room, "output %d at %zu: '%s' instead of '%s'", number, at, got->strings[at], want.strings[at]);
            return 0;
        }
        if (!is_float(want.type)) {
            size_t place = width ? width * at : at * want.bytes / want.count;
            if (!memcmp(got->data + place, want.data + place, width ? width : 1)) continue;
            snprintf(reason, room, "output %d differs at %zu", number, at);
            return 0;
        }
        double ours = element(got, at), theirs = element(&want, at);
        int same = ours == theirs ? sign_is_open || ours != 0 || signbit(ours) == signbit(theirs) : isnan(ours) && isnan(theirs);
        if (!same && centre && ours != theirs && isfinite(ours) && isfinite(theirs)) same = fabs(ours - centre[at]) <= tolerance[at];
        if (same) continue;
        snprintf(reason, room, "output %d at %zu: %.9g instead of %.9g, tolerance %.3g", number, at, ours, theirs,
                 tolerance ? tolerance[at] : 0.0);
        return 0;
    }
    return 1;
}
