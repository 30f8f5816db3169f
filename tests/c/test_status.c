/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <stdlib.h>

#include "check.h"

static void* fail_elsewhere(void* out) {
    isthmus_dtype dtype;
    int* seen = out;
    seen[0] = isthmus_last_status() == ISTHMUS_OK && isthmus_last_error()[0] == '\0';
    (void)isthmus_dtype_parse("elsewhere", &dtype);
    seen[1] = strstr(isthmus_last_error(), "elsewhere") != NULL;
    return NULL;
}

int main(void) {
    isthmus_dtype dtype;
    isthmus_device device;
    CHECK(isthmus_abi_version() == ISTHMUS_C_ABI_VERSION);
    CHECK(isthmus_version()[0] >= '0' && isthmus_version()[0] <= '9');

    CHECK(strcmp(isthmus_status_name(ISTHMUS_OK), "ok") == 0);
    CHECK(strcmp(isthmus_status_name(ISTHMUS_BAD_DTYPE), "bad_dtype") == 0);
    CHECK(strcmp(isthmus_status_name(ISTHMUS_OUT_OF_MEMORY), "out_of_memory") == 0);
    CHECK(strcmp(isthmus_status_name(25), "unknown") == 0);
    CHECK(strcmp(isthmus_status_name(-1), "unknown") == 0);

    CHECK(isthmus_last_status() == ISTHMUS_OK);
    CHECK(strcmp(isthmus_last_error(), "") == 0);
    CHECK(isthmus_dtype_parse("here", &dtype) == ISTHMUS_BAD_DTYPE);
    CHECK(isthmus_last_status() == ISTHMUS_BAD_DTYPE);
    CHECK(strstr(isthmus_last_error(), "\"here\"") != NULL);
    CHECK_OK(isthmus_dtype_parse("int8", &dtype));
    CHECK(isthmus_last_status() == ISTHMUS_BAD_DTYPE); /* a call that succeeds changes nothing */

    /* Each thread has its own. */
    int seen[2] = {0, 0};
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, fail_elsewhere, seen) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(seen[0] && seen[1]);
    CHECK(strstr(isthmus_last_error(), "\"here\"") != NULL);

    CHECK(isthmus_device_parse("there", &device) == ISTHMUS_BAD_DEVICE);
    CHECK(strstr(isthmus_last_error(), "\"there\"") != NULL);
    isthmus_clear_error();
    CHECK(isthmus_last_status() == ISTHMUS_OK && isthmus_last_error()[0] == '\0');

    /* A text longer than the library keeps is cut, not overrun. */
    char* name = malloc(100001);
    memset(name, 'x', 100000);
    name[100000] = '\0';
    CHECK(isthmus_dtype_parse(name, &dtype) == ISTHMUS_BAD_DTYPE);
    CHECK(strlen(isthmus_last_error()) > 100 && strlen(isthmus_last_error()) < 100000);
    free(name);
    return check_report();
}
