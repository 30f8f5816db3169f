/* SPDX-License-Identifier: Apache-2.0
 * References, managed tensors and blobs of one tensor, dropped on many threads: the owner is released once. */
#include <dlpack/dlpack.h>
#include <pthread.h>
#include <stdatomic.h>

#include "check.h"

enum { thread_count = 4, rounds = 100, turns = 50 };

static atomic_int released;
static float memory[4];

static void count_atomically(void* owner) {
    (void)owner;
    atomic_fetch_add(&released, 1);
}

static void* use(void* mine) {
    isthmus_tensor* tensor = mine;
    int failed = 0;
    for (int i = 0; i < turns; ++i) {
        DLManagedTensorVersioned* managed = NULL;
        isthmus_blob blob;
        isthmus_tensor* other = NULL;
        failed |= isthmus_retain(tensor);
        failed |= isthmus_to_dlpack(tensor, &managed);
        failed |= isthmus_to_blob(tensor, &blob);
        failed |= isthmus_release(tensor);
        failed |= isthmus_from_dlpack(managed, &other);
        blob.release(blob.owner);
        failed |= isthmus_release(other);
    }
    failed |= isthmus_release(tensor);
    return failed ? &memory : NULL;
}

int main(void) {
    const int64_t shape[1] = {4};
    for (int round = 0; round < rounds; ++round) {
        isthmus_tensor* tensor = NULL;
        pthread_t threads[thread_count];
        CHECK_OK(isthmus_wrap(memory, shape, NULL, 1, float32, cpu, 0, count_atomically, NULL, &tensor));
        for (int i = 0; i < thread_count; ++i) {
            CHECK_OK(isthmus_retain(tensor));
            CHECK(pthread_create(&threads[i], NULL, use, tensor) == 0);
        }
        CHECK_OK(isthmus_release(tensor));
        for (int i = 0; i < thread_count; ++i) {
            void* failed = NULL;
            CHECK(pthread_join(threads[i], &failed) == 0);
            CHECK(failed == NULL);
        }
        CHECK(atomic_load(&released) == round + 1);
    }
    return check_report();
}
