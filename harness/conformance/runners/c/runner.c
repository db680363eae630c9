/* Runs the tests of a conformance pack with a runtime, each in a process of its own, and writes a submission.
 *
 *     cc -O1 -o run-pack runner.c pack.c judge.c onnxruntime.c -ldl -lm
 *     ./run-pack my-pack my-submission --library libonnxruntime.so --list core
 *
 * Exit codes: 0 if nothing is wrong, crashes or hangs; 1 if something is; 2 if nothing could be run. */
#define _GNU_SOURCE
#include "runtime.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { ROOM = 1024 };
static const char *pack, *submission, *library = "", *list = "core", *pattern = "*", *operator_ = "", *type = "", *opset = "";
static int timeout_s = 60;

static void refuse(const char *form, ...) {
    va_list given;
    va_start(given, form);
    vfprintf(stderr, form, given);
    va_end(given);
    fputc('\n', stderr);
    exit(2);
}

static void read_arguments(int count, char **words) {
    const struct { const char *name, **value; } options[] = {
        {"--library", &library}, {"--list", &list}, {"-k", &pattern}, {"--operator", &operator_}, {"--type", &type}, {"--opset", &opset},
    };
    for (int at = 1; at < count; at++) {
        size_t option = 0;
        if (words[at][0] != '-') { *(pack ? &submission : &pack) = words[at]; continue; }
        if (!strcmp(words[at], "--help")) { submission = NULL; break; }
        if (at + 1 == count) refuse("%s needs a value.", words[at]);
        if (!strcmp(words[at], "--timeout")) {
            if ((timeout_s = atoi(words[++at])) <= 0) refuse("--timeout needs a number of seconds.");
            continue;
        }
        while (option < sizeof options / sizeof *options && strcmp(words[at], options[option].name)) option++;
        if (option == sizeof options / sizeof *options) refuse("There is no option %s.", words[at]);
        *options[option].value = words[++at];
    }
    if (!submission) refuse("usage: %s PACK SUBMISSION --library FILE [--list NAME] [-k PATTERN] [--operator NAME] [--type NAME] "
                            "[--opset NUMBER] [--timeout SECONDS]", words[0]);
}

static int length_of(const Json *list) {
    int length = 0;
    for (const Json *each = list ? list->child : NULL; each; each = each->next) length++;
    return length;
}

static int is_wanted(const Json *test) {
    return holds(member(test, "lists"), list) && !fnmatch(pattern, text_of(test, "id"), 0) &&
           (!*operator_ || holds(member(test, "operators"), operator_)) && (!*type || holds(member(test, "types"), type)) &&
           (!*opset || !strcmp(text_of(test, "opset"), opset));
}

/* In the process of a test: run it, and write the result and the reason. */
static void run_test(const Json *test, FILE *answer) {
    char path[4096], reason[ROOM] = "";
    static Tensor inputs[MOST_VALUES], outputs[MOST_VALUES];
    const char *words[] = {"right", "refused", "unsupported", "absent", "wrong"};
    const Json *takes = member(test, "inputs")->child, *returns = member(test, "outputs")->child;
    snprintf(path, sizeof path, "%s/%s/%s", pack, text_of(test, "folder"), text_of(test, "model"));
    int given = length_of(member(test, "inputs")), wanted = length_of(member(test, "outputs"));
    if (given > MOST_VALUES || wanted > MOST_VALUES) { fprintf(answer, "absent it has more than %d values", MOST_VALUES); fclose(answer); _exit(0); }
    int ending = (int)runtime_load(path, reason, sizeof reason);
    for (int set = 0; ending == OK && set < atoi(text_of(test, "data_sets")); set++) {
        char folder[2048];
        snprintf(folder, sizeof folder, "%s/%s/test_data_set_%d", pack, text_of(test, "folder"), set);
        const Json *each = takes;
        for (int at = 0; at < given; at++, each = each->next) {
            snprintf(path, sizeof path, "%s/input_%d.pb", folder, at);
            if (!read_value(path, text_of(each, "type"), &inputs[at])) { fprintf(answer, "absent %s cannot be read", path); fclose(answer); _exit(0); }
        }
        memset(outputs, 0, sizeof outputs);
        ending = (int)runtime_run(test, inputs, given, outputs, wanted, reason, sizeof reason);
        each = returns;
        for (int at = 0; ending == OK && at < wanted; at++, each = each->next)
            ending = (int[]){[IS_RIGHT] = OK, [IS_WRONG] = 4, [NOT_JUDGED] = ABSENT}[judge(&outputs[at], folder, at, each, reason, sizeof reason)];
    }
    fprintf(answer, "%s %s", words[ending], ending == OK ? "" : reason);
    fclose(answer);
    _exit(0); /* without the library's own clearing up, which may crash */
}

/* Run a test in a process of its own. Write the result, and the reason after a space. */
static void watch(const Json *test, char *answer, size_t room, const char *log) {
    int ends[2], status;
    size_t length = 0;
    if (pipe(ends)) refuse("No pipe: %s", strerror(errno));
    pid_t child = fork();
    if (child < 0) refuse("No process: %s", strerror(errno));
    if (!child) {
        int file = open(log, O_CREAT | O_WRONLY | O_TRUNC, 0644);
        if (file >= 0) { dup2(file, 1); dup2(file, 2); }
        close(ends[0]);
        run_test(test, fdopen(ends[1], "w"));
    }
    close(ends[1]);
    struct pollfd wait = {ends[0], POLLIN, 0};
    time_t limit = time(NULL) + timeout_s;
    for (ssize_t got = 1; got > 0 && length < room - 1; length += got > 0 ? (size_t)got : 0) {
        long left = (long)(limit - time(NULL));
        if (left < 0 || poll(&wait, 1, (int)left * 1000 + 1) <= 0) {
            kill(child, SIGKILL);
            waitpid(child, &status, 0);
            close(ends[0]);
            snprintf(answer, room, "hung it did not end within %d s", timeout_s);
            return;
        }
        got = read(ends[0], answer + length, room - 1 - length);
    }
    answer[length] = 0;
    close(ends[0]);
    waitpid(child, &status, 0);
    if (WIFSIGNALED(status)) snprintf(answer, room, "crashed its process was ended by signal %d", WTERMSIG(status));
    else if (!length) snprintf(answer, room, "crashed its process ended with code %d", WEXITSTATUS(status));
}

static void write_text(FILE *file, const char *text) {
    fputc('"', file);
    for (const unsigned char *at = (const unsigned char *)text; *at; at++)
        if (*at == '"' || *at == '\\') fprintf(file, "\\%c", *at);
        else if (*at < 32 || *at > 126) fprintf(file, "\\u%04x", *at);
        else fputc(*at, file);
    fputc('"', file);
}

/* The results of an earlier call, of the same pack. A last line that was cut off is taken away. */
static char *read_earlier(const char *about, const char *results, const char *digest) {
    size_t size = 0;
    Json *earlier = parse_json(read_file(about, NULL));
    if (earlier && strcmp(text_of(earlier, "pack"), digest)) refuse("%s was made with another pack.", submission);
    char *lines = read_file(results, &size);
    if (lines && !earlier) refuse("%s has no submission.json, but results. Name a new folder.", submission);
    while (lines && size && lines[size - 1] != '\n') lines[--size] = 0;
    if (lines && truncate(results, (off_t)size)) refuse("%s: %s", results, strerror(errno));
    return lines ? lines : strdup("");
}

/* Close a file, of which all has to be written. */
static void finish(FILE *file, const char *path) {
    int failed = ferror(file);
    if (fclose(file) || failed) refuse("%s cannot be written: %s", path, strerror(errno));
}

static void write_about(const char *path, const char *digest, const char *version) {
    char started[32], again[4096];
    struct utsname system;
    time_t now = time(NULL);
    FILE *file = fopen(path, "w");
    if (!file) refuse("%s: %s", path, strerror(errno));
    uname(&system);
    strftime(started, sizeof started, "%Y-%m-%dT%H:%M:%SZ", gmtime(&now));
    fprintf(file, "{\"format\": \"onnx-parity-submission\", \"version\": 1, \"pack\": \"%s\", \"runtime\": {\"name\": \"%s\", \"version\": ",
            digest, runtime_name);
    write_text(file, version);
    fprintf(file, "}, \"platform\": \"%s %s\", \"runner\": \"c 1\", \"list\": ", system.sysname, system.machine);
    write_text(file, list);
    snprintf(again, sizeof again, "run-pack PACK OUT --library %s", library);
    fprintf(file, ", \"started\": \"%s\", \"again\": ", started);
    write_text(file, again);
    fprintf(file, "}\n");
    finish(file, path);
}

int main(int count, char **words) {
    char path[4096], about[4096], version[64], digest[65] = "", answer[ROOM + 64], mark[512];
    int selected = 0, grave = 0, right = 0;
    read_arguments(count, words);
    snprintf(path, sizeof path, "%s/manifest.json", pack);
    Json *manifest = parse_json(read_file(path, NULL));
    if (!manifest) refuse("%s is no JSON, or is not there.", path);
    if (strcmp(text_of(manifest, "format"), "onnx-parity-pack") || strcmp(text_of(manifest, "version"), "3"))
        refuse("%s is not of the format onnx-parity-pack, version 3.", path);
    snprintf(path, sizeof path, "%s/manifest.sha256", pack);
    char *sum = read_file(path, NULL);
    if (!sum || sscanf(sum, "%64[0-9a-f]", digest) != 1) refuse("%s cannot be read.", path);
    const char *fault = runtime_open(library, version, sizeof version);
    if (fault) refuse("%s", fault);
    mkdir(submission, 0755);
    snprintf(path, sizeof path, "%s/logs", submission);
    mkdir(path, 0755);
    snprintf(about, sizeof about, "%s/submission.json", submission);
    snprintf(path, sizeof path, "%s/results.jsonl", submission);
    char *earlier = read_earlier(about, path, digest);
    write_about(about, digest, version);
    FILE *results = fopen(path, "a");
    if (!results) refuse("%s: %s", path, strerror(errno));
    for (const Json *test = member(manifest, "tests") ? member(manifest, "tests")->child : NULL; test; test = test->next) {
        if (!is_wanted(test)) continue;
        selected++;
        snprintf(mark, sizeof mark, "{\"id\": \"%s\", \"result\": \"", text_of(test, "id"));
        const char *before = strstr(earlier, mark);
        if (before) snprintf(answer, sizeof answer, "%.20s", before + strlen(mark));
        else {
            struct timespec start, end;
            char log[8192];
            struct stat written = {0};
            snprintf(log, sizeof log, "%s/logs/%s.txt", submission, text_of(test, "id"));
            clock_gettime(CLOCK_MONOTONIC, &start);
            watch(test, answer, sizeof answer, log);
            clock_gettime(CLOCK_MONOTONIC, &end);
            char *text = strchr(answer, ' ');
            if (text) *text++ = 0;
            fprintf(results, "%s%s\", \"seconds\": %.4f, \"reason\": ", mark, answer,
                    (double)(end.tv_sec - start.tv_sec) + (double)(end.tv_nsec - start.tv_nsec) / 1e9);
            write_text(results, text ? text : "");
            if (!stat(log, &written) && written.st_size) fprintf(results, ", \"log\": \"logs/%s.txt\"", text_of(test, "id"));
            else unlink(log);
            fprintf(results, "}\n");
            if (fflush(results) || ferror(results)) refuse("%s cannot be written: %s", path, strerror(errno));
        }
        grave += !strncmp(answer, "wrong", 5) || !strncmp(answer, "crashed", 7) || !strncmp(answer, "hung", 4);
        right += !strncmp(answer, "right", 5);
    }
    if (!selected) refuse("No test of %s was selected.", pack);
    printf("%s %s: %d tests, %d right, %d wrong, crashed or hung, %d refused, unsupported or absent\n", runtime_name, version, selected,
           right, grave, selected - right - grave);
    return grave || !right;
}
