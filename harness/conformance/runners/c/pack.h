/* Reading a conformance pack: JSON, tensors, and the judgement of an output. docs/conformance.md has the format. */
#ifndef PACK_H
#define PACK_H
#include <stddef.h>
#include <stdint.h>

typedef struct Json {
    char kind; /* '{', '[', '"', or '0' for numbers and words */
    char *key, *text;
    struct Json *child, *next;
} Json;

/* ONNX's numbers of the types that a runner has to know. */
enum { FLOAT = 1, INT64 = 7, STRING = 8, FLOAT16 = 10, DOUBLE = 11, BFLOAT16 = 16, FLOAT8E4M3FN = 17, FLOAT8E5M2FNUZ = 20 };
/* What stands in their place for a value that is no tensor. */
enum { SEQUENCE = -1, NOTHING = -2, OTHER = -3, MAP = -4 };
enum { MOST_DIMENSIONS = 16, MOST_VALUES = 1024 };

typedef struct Tensor {
    int type, rank;
    int64_t dims[MOST_DIMENSIONS];
    size_t count, bytes;
    unsigned char *data;
    char **strings;       /* of a tensor of strings, in place of the data */
    struct Tensor *items; /* of a sequence, of which `count` is the length; of a map its keys and its values */
} Tensor;

char *read_file(const char *path, size_t *size); /* NULL if it cannot be read; ends with a zero byte */
Json *parse_json(char *text);                    /* NULL if it is none; the text is changed, and used by the result */
Json *member(const Json *object, const char *key);
const char *text_of(const Json *object, const char *key);
int holds(const Json *array, const char *text); /* whether a list has this text, or an object this key */

/* Read a value of a type such as seq(tensor(float)). 0 if it cannot be read. */
int read_value(const char *path, const char *type, Tensor *value);
size_t bytes_of(int type, size_t count);
const char *name_of(int type); /* in ONNX's words: float */

/* Whether an output is right, wrong, or cannot be judged, as a file of the pack cannot be read. If it is not right, `reason`
 * says why. `described` is the output in the manifest. */
typedef enum { IS_WRONG, IS_RIGHT, NOT_JUDGED } Judgement;
Judgement judge(const Tensor *got, const char *folder, int number, const Json *described, char *reason, size_t room);
#endif
