/* SPDX-License-Identifier: Apache-2.0
 * Memory that crosses processes, from C: handed to a child and back, refused by number where it must be. */
#include <isthmus/c/shared.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

static const int64_t shape[2] = {3, 4};

static float* elements(isthmus_tensor* tensor) {
    isthmus_tensor_info info;
    CHECK_OK(isthmus_describe(tensor, &info));
    return info.data;
}

/* Takes one tensor, writes to it where it may, and answers with one of its own. */
static int child(int socket) {
    isthmus_tensor *got = NULL, *own = NULL;
    isthmus_tensor_info info;
    CHECK_OK(isthmus_shared_receive(socket, ISTHMUS_OFFERED_ACCESS, -1, &got));
    CHECK_OK(isthmus_describe(got, &info));
    CHECK(info.ndim == 2 && info.shape[0] == 3 && info.shape[1] == 4 && info.flags == 0);
    CHECK(((float*)info.data)[11] == 11);
    ((float*)info.data)[11] = -11;
    CHECK_OK(isthmus_shared_empty(NULL, NULL, 0, float32, ISTHMUS_READ_ONLY_ACCESS, 0, &own));
    elements(own)[0] = 42;
    CHECK_OK(isthmus_shared_send(socket, own, ISTHMUS_READ_ONLY_ACCESS, -1));
    CHECK_OK(isthmus_release(own));
    CHECK_OK(isthmus_release(got));
    return check_failures != 0;
}

static void there_and_back(int32_t access, float seen) {
    int sockets[2], status = 0;
    isthmus_pool* pool = NULL;
    isthmus_tensor *sent = NULL, *answer = NULL;
    isthmus_tensor_info info;
    CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets) == 0);
    const pid_t pid = fork();
    if (pid == 0) _exit(child(sockets[1]));
    CHECK(close(sockets[1]) == 0);
    CHECK_OK(isthmus_shared_pool_create(1 << 20, &pool));
    CHECK_OK(isthmus_shared_empty(pool, shape, 2, float32, access, 0, &sent));
    for (int i = 0; i < 12; ++i) elements(sent)[i] = (float)i;
    CHECK_OK(isthmus_shared_send(sockets[0], sent, access, -1));
    CHECK_OK(isthmus_shared_receive(sockets[0], ISTHMUS_READ_ONLY_ACCESS, -1, &answer));
    CHECK_OK(isthmus_describe(answer, &info));
    CHECK(info.ndim == 0 && info.flags == ISTHMUS_FLAG_READ_ONLY && *(float*)info.data == 42);
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    CHECK(elements(sent)[11] == seen);
    CHECK_FAILS(isthmus_shared_receive(sockets[0], ISTHMUS_OFFERED_ACCESS, -1, &answer), ISTHMUS_PEER_CLOSED, "gone");
    CHECK_FAILS(isthmus_shared_send(sockets[0], sent, access, -1), ISTHMUS_PEER_CLOSED, "sendmsg");
    CHECK_OK(isthmus_release(answer));
    CHECK_OK(isthmus_release(sent));
    CHECK_OK(isthmus_shared_pool_release(pool));
    CHECK(close(sockets[0]) == 0);
}

static void refusals(void) {
    int sockets[2];
    const int64_t huge[1] = {(int64_t)1 << 46};
    float plain[4] = {0, 1, 2, 3};
    const int64_t four[1] = {4};
    isthmus_tensor *tensor = NULL, *copy = NULL, *again = NULL;
    isthmus_pool* pool = NULL;
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0);
    CHECK_OK(isthmus_wrap(plain, four, NULL, 1, float32, cpu, 0, NULL, NULL, &tensor));
    CHECK_FAILS(isthmus_shared_send(sockets[0], tensor, ISTHMUS_READ_ONLY_ACCESS, 0), ISTHMUS_NEEDS_COPY, "share()");
    CHECK_OK(isthmus_shared_share(NULL, tensor, ISTHMUS_READ_ONLY_ACCESS, 0, &copy));
    CHECK(elements(copy) != plain && elements(copy)[3] == 3);
    CHECK_OK(isthmus_shared_share(NULL, copy, ISTHMUS_READ_ONLY_ACCESS, 0, &again));
    CHECK(elements(again) == elements(copy));
    CHECK_FAILS(isthmus_shared_send(sockets[0], copy, 3, 0), ISTHMUS_BAD_ARGUMENT, "'access'");
    CHECK_FAILS(isthmus_shared_send(sockets[0], NULL, 0, 0), ISTHMUS_BAD_ARGUMENT, "'tensor'");
    CHECK_FAILS(isthmus_shared_send(-1, copy, 0, 0), ISTHMUS_BAD_ARGUMENT, "'socket'");
    CHECK_FAILS(isthmus_shared_receive(sockets[1], 0, 0, NULL), ISTHMUS_BAD_ARGUMENT, "'out'");
    CHECK_FAILS(isthmus_shared_receive(sockets[1], 0, 5, &again), ISTHMUS_TIMED_OUT, "5 ms");
    CHECK_FAILS(isthmus_shared_empty(NULL, huge, 1, float32, 0, 0, &again), ISTHMUS_OUT_OF_MEMORY, "bytes");
    CHECK(write(sockets[0], "0123456789012345678901234567890123456789012345678901234567890123", 64) == 64);
    CHECK_FAILS(isthmus_shared_receive(sockets[1], 0, -1, &again), ISTHMUS_BAD_MESSAGE, "message");
    CHECK_OK(isthmus_shared_pool_create(4096, &pool));
    CHECK_OK(isthmus_release(again));
    CHECK_OK(isthmus_shared_empty(pool, four, 1, float32, 0, 0, &again));
    CHECK_FAILS(isthmus_shared_share(pool, tensor, 0, 5, &tensor), ISTHMUS_TIMED_OUT, "limit");
    CHECK_OK(isthmus_release(again));
    CHECK_OK(isthmus_shared_pool_release(pool));
    CHECK_OK(isthmus_release(copy));
    CHECK_OK(isthmus_release(tensor));
    CHECK(close(sockets[0]) == 0 && close(sockets[1]) == 0);
}

int main(void) {
    there_and_back(ISTHMUS_SHARED_ACCESS, -11);
    there_and_back(ISTHMUS_COPY_ON_WRITE_ACCESS, 11);
    refusals();
    return check_report();
}
