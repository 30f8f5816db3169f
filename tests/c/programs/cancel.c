/* A thread of plain C is cancelled while it gives a tensor's last reference back: the join ends, and the owner went
 * once. */
/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <dlpack/dlpack.h>
#include <isthmus/c/isthmus.h>

static float memory[4];
static sem_t inside;
static volatile int go_on;
static int released;

/* usleep() is a cancellation point. */
static void release(void* owner) {
    (void)owner;
    sem_post(&inside);
    while (!go_on) usleep(1000);
    usleep(1000);
    ++released;
}

static isthmus_tensor* make(void) {
    const int64_t shape[] = {4};
    const isthmus_dtype float32 = {kDLFloat, 32, 1};
    const isthmus_device cpu = {kDLCPU, 0};
    isthmus_tensor* tensor = NULL;
    if (isthmus_wrap(memory, shape, NULL, 1, float32, cpu, 0, release, memory, &tensor) != ISTHMUS_OK) abort();
    return tensor;
}

static void* by_release(void* tensor) {
    isthmus_release(tensor);
    return NULL;
}
static void* by_deleter(void* tensor) {
    struct DLManagedTensorVersioned* managed = NULL;
    if (isthmus_to_dlpack(tensor, &managed) != ISTHMUS_OK) abort();
    isthmus_release(tensor);
    managed->deleter(managed);
    return NULL;
}
static void* by_alias(void* tensor) {
    isthmus_tensor* alias = NULL;
    if (isthmus_as_read_only(tensor, &alias) != ISTHMUS_OK) abort();
    isthmus_release(tensor);
    isthmus_release(alias);
    return NULL;
}
static void* by_blob(void* tensor) {
    isthmus_blob blob;
    if (isthmus_to_blob(tensor, &blob) != ISTHMUS_OK) abort();
    isthmus_release(tensor);
    blob.release(blob.owner);
    return NULL;
}

int main(int argc, char** argv) {
    const char* way = argc > 1 ? argv[1] : "release";
    void* (*run)(void*) = strcmp(way, "deleter") == 0 ? by_deleter
                          : strcmp(way, "alias") == 0 ? by_alias
                          : strcmp(way, "blob") == 0  ? by_blob
                                                      : by_release;
    pthread_t thread;
    void* result = NULL;
    alarm(20); /* a join that hangs ends the process by a signal */
    sem_init(&inside, 0, 0);
    pthread_create(&thread, NULL, run, make());
    sem_wait(&inside);
    pthread_cancel(thread);
    go_on = 1;
    pthread_join(thread, &result);
    /* Cancelled in the middle the owner may be half done; what counts is that it was not called twice. */
    printf("joined, released %s\n", released <= 1 ? "at most once" : "twice");
    return 0;
}
