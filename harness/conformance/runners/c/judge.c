/* Judging an output: docs/conformance.md has the rules. */
#include "pack.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static double integer(const Tensor *tensor, size_t at) {
    size_t width = bytes_of(tensor->type, 1);
    uint64_t value = 0;
    memcpy(&value, tensor->data + width * at, width);
    if (tensor->type != 3 && (tensor->type < 5 || tensor->type > 7)) return (double)value; /* bool, and what has no sign */
    return (double)((int64_t)(value << (64 - 8 * width)) >> (64 - 8 * width));
}

static double number_of(const Json *object, const char *key) { return atof(text_of(object, key)); }

/* Whether a tensor is right. `centre` and `tolerance` are NULL where its elements have to be equal. */
static int judge_tensor(const Tensor *got, const Tensor *want, const double *centre, const double *tolerance, int sign_is_open,
                        char *reason, size_t room) {
    if (got->type != want->type || got->rank != want->rank || memcmp(got->dims, want->dims, sizeof(int64_t) * (size_t)want->rank)) {
        snprintf(reason, room, "has type %d and rank %d, or other sizes, in place of type %d and rank %d", got->type, got->rank, want->type,
                 want->rank);
        return 0;
    }
    size_t width = want->count ? want->bytes / want->count : 0; /* 0 where several elements share a byte */
    for (size_t at = 0; at < want->count; at++) {
        if (want->type == STRING) {
            if (!strcmp(got->strings[at], want->strings[at])) continue;
            snprintf(reason, room, "at %zu: '%s' instead of '%s'", at, got->strings[at], want->strings[at]);
            return 0;
        }
        if (!is_float(want->type)) {
            size_t place = width ? width * at : at * want->bytes / want->count;
            if (!memcmp(got->data + place, want->data + place, width ? width : 1)) continue;
            snprintf(reason, room, "differs at %zu", at);
            return 0;
        }
        double ours = element(got, at), theirs = element(want, at);
        int same = ours == theirs ? sign_is_open || ours != 0 || signbit(ours) == signbit(theirs) : isnan(ours) && isnan(theirs);
        if (!same && centre && ours != theirs && isfinite(ours) && isfinite(theirs)) same = fabs(ours - centre[at]) <= tolerance[at];
        if (same) continue;
        int digits = want->type == 11 ? 17 : 9;
        snprintf(reason, room, "at %zu: %.*g instead of %.*g, tolerance %.3g", at, digits, ours, digits, theirs, tolerance ? tolerance[at] : 0.0);
        return 0;
    }
    return 1;
}

/* How many elements of a value have a tolerance, if it has any: the keys of a map have none. */
static size_t elements(const Tensor *value) {
    size_t count = value->type == SEQUENCE ? 0 : value->type == MAP ? value->items[1].count : value->count;
    for (size_t item = 0; value->type == SEQUENCE && item < value->count; item++) count += elements(&value->items[item]);
    return count;
}

static int judge_value(const Tensor *got, const Tensor *want, const double *centre, const double *tolerance, int sign_is_open,
                       char *reason, size_t room) {
    if (want->type >= 0) return judge_tensor(got, want, centre, tolerance, sign_is_open, reason, room);
    if (got->type != want->type || got->count != want->count) {
        if (want->type == SEQUENCE) snprintf(reason, room, "is no sequence of %zu", want->count);
        else snprintf(reason, room, want->type == MAP ? "is no map" : "has a value in place of none");
        return 0;
    }
    if (want->type == MAP)
        return judge_tensor(&got->items[0], &want->items[0], NULL, NULL, 0, reason, room) &&
               judge_tensor(&got->items[1], &want->items[1], centre, tolerance, sign_is_open, reason, room);
    for (size_t item = 0, place = 0; item < want->count; place += elements(&want->items[item++]))
        if (!judge_value(&got->items[item], &want->items[item], centre ? centre + place : NULL, tolerance ? tolerance + place : NULL,
                         sign_is_open, reason, room)) return 0;
    return 1;
}

/* Whether an output that is drawn at random has the bounds, the mean and the deviation that it must have. */
static int judge_drawn(const Tensor *got, const char *type, const Json *drawn, char *reason, size_t room) {
    double sum = 0, squares = 0, least = INFINITY, most = -INFINITY;
    int axis = 0;
    char name[64];
    snprintf(name, sizeof name, "tensor(%s)", name_of(got->type));
    int same = got->type > 0 && got->type != STRING && !strcmp(type, name);
    for (const Json *size = member(drawn, "shape")->child; size; size = size->next, axis++)
        same = same && axis < got->rank && got->dims[axis] == atoll(size->text);
    if (!same || axis != got->rank) { snprintf(reason, room, "has another type or shape"); return 0; }
    for (size_t at = 0; at < got->count; at++) {
        double each = is_float(got->type) ? element(got, at) : integer(got, at);
        sum += each;
        if (!(each >= least)) least = each;
        if (!(each <= most)) most = each;
    }
    double mean = sum / (double)got->count;
    for (size_t at = 0; at < got->count; at++) squares += pow((is_float(got->type) ? element(got, at) : integer(got, at)) - mean, 2);
    double deviation = sqrt(squares / (double)got->count);
    snprintf(reason, room, "is from %.9g to %.9g with mean %.9g and deviation %.9g", least, most, mean, deviation);
    return !got->count || (least >= number_of(drawn, "low") && most <= number_of(drawn, "high") &&
                           fabs(mean - number_of(drawn, "mean")) <= number_of(drawn, "mean_within") &&
                           fabs(deviation - number_of(drawn, "deviation")) <= number_of(drawn, "deviation_within"));
}

Judgement judge(const Tensor *got, const char *folder, int number, const Json *described, char *reason, size_t room) {
    char path[4096];
    Tensor want;
    double *centre = NULL, *tolerance = NULL;
    size_t start = (size_t)snprintf(reason, room, "output %d ", number);
    if (!strcmp(text_of(described, "judged"), "distribution"))
        return judge_drawn(got, text_of(described, "type"), member(described, "distribution"), reason + start, room - start);
    snprintf(path, sizeof path, "%s/output_%d.pb", folder, number);
    if (!read_value(path, text_of(described, "type"), &want)) { snprintf(reason, room, "%s cannot be read", path); return NOT_JUDGED; }
    if (!strcmp(text_of(described, "judged"), "elementwise")) {
        size_t sizes[2] = {0}, count = elements(&want);
        snprintf(path, sizeof path, "%s/centre_%d.f64", folder, number);
        centre = (double *)read_file(path, &sizes[0]);
        snprintf(path, sizeof path, "%s/tolerance_%d.f64", folder, number);
        tolerance = (double *)read_file(path, &sizes[1]);
        if (!centre || !tolerance || sizes[0] != 8 * count || sizes[1] != 8 * count) { snprintf(reason, room, "%s cannot be read", path); return NOT_JUDGED; }
    }
    return judge_value(got, &want, centre, tolerance, holds(member(described, "open"), "zero_sign"), reason + start, room - start);
}
