/* Reading a conformance pack: JSON, and tensors. */
#include "pack.h"

#include <ctype.h>
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

static char *parse_any(char *at, Json **value, int depth) {
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
        if (!(at = parse_any(at, last, depth + 1))) return NULL;
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
    return text && parse_any(text, &value, 0) ? value : NULL;
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
    if (type == 27 || type == 28) return (count * 3 + 3) / 4; /* float6e2m3, float6e3m2 */
    return type == 25 || type == 26 ? (count + 3) / 4 : count; /* uint2, int2; float8e8m0 */
}

const char *name_of(int type) {
    static const char *const names[] = {"", "float", "uint8", "int8", "uint16", "int16", "int32", "int64", "string", "bool", "float16",
                                        "double", "uint32", "uint64", "", "", "bfloat16"};
    return type > 0 && type < (int)(sizeof names / sizeof *names) ? names[type] : "";
}

static const unsigned char *read_varint(const unsigned char *at, const unsigned char *end, uint64_t *value) {
    *value = 0;
    for (int shift = 0; at < end && shift < 64; shift += 7) {
        *value |= (uint64_t)(*at & 127) << shift;
        if (!(*at++ & 128)) return at;
    }
    return NULL;
}

/* The next field of a protobuf: its number, and its value, or its bytes and how many they are. NULL at a fault. */
static const unsigned char *read_field(const unsigned char *at, const unsigned char *end, int *field, uint64_t *value,
                                       const unsigned char **bytes) {
    uint64_t tag;
    *bytes = NULL;
    if (!(at = read_varint(at, end, &tag))) return NULL;
    *field = (int)(tag >> 3);
    int wire = (int)(tag & 7), width = wire == 5 ? 4 : 8;
    if (wire == 5 || wire == 1) { *field = 0; return end - at < width ? NULL : at + width; }
    if ((wire != 0 && wire != 2) || !(at = read_varint(at, end, value))) return NULL;
    if (wire == 0) return at;
    *bytes = at;
    return *value > (uint64_t)(end - at) ? NULL : at + *value;
}

static int parse_tensor(const unsigned char *at, const unsigned char *end, Tensor *tensor) {
    size_t strings = 0;
    int field;
    uint64_t value, size;
    const unsigned char *bytes;
    while (at < end) {
        if (!(at = read_field(at, end, &field, &value, &bytes))) return 0;
        if (field == 1 && !bytes && tensor->rank < MOST_DIMENSIONS) tensor->dims[tensor->rank++] = (int64_t)value;
        for (const unsigned char *one = bytes; field == 1 && one && one < at && tensor->rank < MOST_DIMENSIONS;) {
            if (!(one = read_varint(one, at, &size))) return 0;
            tensor->dims[tensor->rank++] = (int64_t)size;
        }
        if (field == 2 && !bytes) tensor->type = (int)value;
        if (field == 9 && bytes) { tensor->data = (unsigned char *)bytes; tensor->bytes = value; }
        if (field == 6 && bytes) {
            tensor->strings = realloc(tensor->strings, (strings + 1) * sizeof(char *));
            tensor->strings[strings++] = strndup((const char *)bytes, value);
        }
    }
    tensor->count = 1;
    for (int axis = 0; axis < tensor->rank; axis++) tensor->count *= (size_t)tensor->dims[axis];
    return tensor->type == STRING ? strings == tensor->count : tensor->bytes == bytes_of(tensor->type, tensor->count);
}

static int parse_value(const unsigned char *at, const unsigned char *end, const char *type, Tensor *made);

/* A map: a tensor of its keys, in ascending order, and one of its values, both of rank 1. */
static int parse_map(const unsigned char *at, const unsigned char *end, const char *type, Tensor *made) {
    Tensor *keys = made->items = calloc(2, sizeof *keys), *values = keys + 1, sequence = {0};
    const unsigned char *bytes;
    uint64_t value;
    int field;
    keys->type = strncmp(type, "map(string", 10) ? INT64 : STRING;
    keys->data = calloc(1, (size_t)(end - at) * sizeof value + 1); /* more than enough, as each key has a byte or more */
    keys->strings = calloc((size_t)(end - at) + 1, sizeof(char *));
    while (at < end) {
        if (!(at = read_field(at, end, &field, &value, &bytes))) return 0;
        if (field == 3 && !bytes) memcpy(keys->data + sizeof value * keys->count++, &value, sizeof value);
        for (const unsigned char *one = bytes; field == 3 && one && one < at; keys->count++) {
            if (!(one = read_varint(one, at, &value))) return 0;
            memcpy(keys->data + sizeof value * keys->count, &value, sizeof value);
        }
        if (field == 4 && bytes) keys->strings[keys->count++] = strndup((const char *)bytes, value);
        if (field == 5 && bytes && !parse_value(bytes, at, "seq(tensor", &sequence)) return 0;
    }
    while (strncmp(strchr(type, ' ') + 1, name_of(++values->type), strcspn(strchr(type, ' ') + 1, ")")))
        if (values->type == BFLOAT16) return 0;
    size_t width = bytes_of(values->type, 1);
    values->data = calloc(sequence.count + 1, width + 1);
    values->strings = calloc(sequence.count + 1, sizeof(char *));
    for (; values->count < sequence.count; values->count++) {
        Tensor *item = &sequence.items[values->count];
        if (item->type != values->type || item->count != 1) return 0;
        if (item->type == STRING) values->strings[values->count] = item->strings[0];
        else memcpy(values->data + width * values->count, item->data, width);
    }
    keys->rank = values->rank = 1;
    keys->dims[0] = values->dims[0] = (int64_t)keys->count;
    keys->bytes = bytes_of(keys->type, keys->count);
    values->bytes = width * values->count;
    made->type = MAP;
    made->count = 2;
    return keys->count == values->count;
}

static int parse_value(const unsigned char *at, const unsigned char *end, const char *type, Tensor *made) {
    int field, is_sequence = !strncmp(type, "seq(", 4);
    uint64_t value;
    const unsigned char *bytes;
    memset(made, 0, sizeof *made);
    if (!strncmp(type, "map(", 4)) return parse_map(at, end, type, made);
    if (!is_sequence && strncmp(type, "optional(", 9)) return parse_tensor(at, end, made);
    made->type = is_sequence ? SEQUENCE : NOTHING;
    while (at < end) {
        if (!(at = read_field(at, end, &field, &value, &bytes))) return 0;
        if (!bytes || (field != 3 && field != 5 && field != 6)) continue;
        if (!is_sequence) return parse_value(bytes, at, type + 9, made); /* its tensor, sequence or map */
        made->items = realloc(made->items, (made->count + 1) * sizeof *made);
        if (!parse_value(bytes, at, type + 4, &made->items[made->count++])) return 0;
    }
    return 1;
}

int read_value(const char *path, const char *type, Tensor *value) {
    size_t size;
    const unsigned char *content = (unsigned char *)read_file(path, &size);
    return content && parse_value(content, content + size, type, value);
}
