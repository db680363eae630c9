/* A runtime, but wrong for one operator at one size: FAULT is a part of a test's id, such as Elu-22-float-2x3.
 *
 * In the output, the element of the largest magnitude is wrong by a tenth of a thousandth of it, an integer by one, and a
 * half by 64 units in its last place. It is compiled in place of the file that RUNTIME names, such as "onnxruntime.c". */
#define runtime_run run_rightly
#include RUNTIME
#undef runtime_run

#include <math.h>
#include <stdlib.h>
#include <string.h>

Ending runtime_run(const Json *test, Tensor *inputs, int given, Tensor *outputs, int wanted, char *reason, size_t room) {
    Ending ending = run_rightly(test, inputs, given, outputs, wanted, reason, room);
    if (ending != OK || !strstr(text_of(test, "id"), getenv("FAULT")) || !outputs[0].count) return ending;
    float *singles = (float *)outputs[0].data;
    double *doubles = (double *)outputs[0].data;
    size_t worst = 0;
    switch (outputs[0].type) {
    case FLOAT:
        for (size_t at = 0; at < outputs[0].count; at++) if (fabsf(singles[at]) > fabsf(singles[worst])) worst = at;
        singles[worst] = singles[worst] != 0 ? singles[worst] * 1.0001f : 1e-4f;
        break;
    case DOUBLE:
        for (size_t at = 0; at < outputs[0].count; at++) if (fabs(doubles[at]) > fabs(doubles[worst])) worst = at;
        doubles[worst] = doubles[worst] != 0 ? doubles[worst] * 1.0001 : 1e-4;
        break;
    case FLOAT16: case BFLOAT16: outputs[0].data[0] ^= 64; break;
    default: outputs[0].data[0] ^= 1;
    }
    return ending;
}
