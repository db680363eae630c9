/* What a runtime has to offer so that `runner.c` can run it: these four functions, in a file of its own. */
#ifndef RUNTIME_H
#define RUNTIME_H
#include "pack.h"

/* ABSENT: the runtime could run it, but cannot be given its inputs from here. */
typedef enum { OK, REFUSED, UNSUPPORTED, ABSENT } Ending;

extern const char *const runtime_name;
/* Load the library, once. Return what is wrong, or NULL; write the version. */
const char *runtime_open(const char *library, char *version, size_t room);
/* Load a model, in the process of one test. If it is not OK, `reason` says why. */
Ending runtime_load(const char *model, char *reason, size_t room);
/* Run the model that was loaded. The outputs stay valid until the process ends. */
Ending runtime_run(const Json *test, Tensor *inputs, int given, Tensor *outputs, int wanted, char *reason, size_t room);
#endif
