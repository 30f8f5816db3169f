/* SPDX-License-Identifier: Apache-2.0
 * The native methods of isthmus.Tensor, over the C interface. */
#include <isthmus/c/isthmus.h>
#include <jni.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { max_ndim = 64 };

static void throw_plain(JNIEnv* env, const char* type, const char* text) {
    jclass found = (*env)->FindClass(env, type);
    if (found != NULL) (*env)->ThrowNew(env, found, text);
}

/* Java's exception for a status; false when there is none to throw. */
static int failed(JNIEnv* env, isthmus_status status) {
    if (status == ISTHMUS_OK) return 0;
    jclass type = (*env)->FindClass(env, "isthmus/IsthmusException");
    if (type == NULL) return 1;
    jmethodID make = (*env)->GetMethodID(env, type, "<init>",
                                         "(ILjava/lang/String;Ljava/lang/String;)V");
    jstring name = (*env)->NewStringUTF(env, isthmus_status_name(status));
    jstring text = (*env)->NewStringUTF(env, isthmus_last_error());
    if (make == NULL || name == NULL || text == NULL) return 1;
    jobject error = (*env)->NewObject(env, type, make, (jint)status, name, text);
    if (error != NULL) (*env)->Throw(env, error);
    return 1;
}

/* Copies at most max_ndim numbers; the number of them, or -1 with an exception. */
static int read_dims(JNIEnv* env, jlongArray from, int64_t* to) {
    const jsize count = (*env)->GetArrayLength(env, from);
    if (count > max_ndim) {
        throw_plain(env, "java/lang/IllegalArgumentException",
                    "more than 64 dimensions");
        return -1;
    }
    (*env)->GetLongArrayRegion(env, from, 0, count, (jlong*)to);
    return (int)count;
}

static jlongArray write_dims(JNIEnv* env, const int64_t* from, int32_t count) {
    jlongArray to = (*env)->NewLongArray(env, count);
    if (to != NULL) (*env)->SetLongArrayRegion(env, to, 0, count, (const jlong*)from);
    return to;
}

/* A name that is too long keeps no NUL, and is refused by the library as what it is: no
 * name. */
static void read_name(JNIEnv* env, jstring from, char to[ISTHMUS_NAME_SIZE]) {
    if (from == NULL) return;
    const char* text = (*env)->GetStringUTFChars(env, from, NULL);
    if (text == NULL) return;
    const size_t size = strlen(text);
    memcpy(to, text, size < ISTHMUS_NAME_SIZE ? size : ISTHMUS_NAME_SIZE);
    (*env)->ReleaseStringUTFChars(env, from, text);
}

static jlong to_java(isthmus_tensor* tensor) { return (jlong)(intptr_t)tensor; }
static isthmus_tensor* to_c(jlong handle) { return (isthmus_tensor*)(intptr_t)handle; }

JNIEXPORT jlong JNICALL Java_isthmus_Tensor_fromBlob0(
    JNIEnv* env, jclass self, jlong ptr, jlongArray shape, jlongArray strides,
    jstring dtype, jstring device, jlong element_size, jboolean read_only, jlong owner,
    jlong release) {
    (void)self;
    int64_t sizes[max_ndim], steps[max_ndim];
    isthmus_blob blob;
    memset(&blob, 0, sizeof blob);
    blob.owner = (void*)(intptr_t)owner;
    blob.release = (isthmus_release_fn)(intptr_t)release;
    const int ndim = read_dims(env, shape, sizes);
    const int step_count =
        ndim >= 0 && strides != NULL ? read_dims(env, strides, steps) : ndim;
    if (ndim < 0 || step_count != ndim) {
        if (ndim >= 0 && step_count >= 0)
            throw_plain(env, "java/lang/IllegalArgumentException",
                        "strides and shape differ in length");
        if (blob.release != NULL) blob.release(blob.owner);
        return 0;
    }
    blob.ptr = (void*)(intptr_t)ptr;
    blob.shape = sizes;
    blob.strides = strides != NULL ? steps : NULL;
    blob.element_size = element_size;
    blob.ndim = ndim;
    blob.flags = read_only ? ISTHMUS_FLAG_READ_ONLY : 0;
    read_name(env, dtype, blob.dtype_name);
    read_name(env, device, blob.device_name);
    isthmus_tensor* tensor = NULL;
    return failed(env, isthmus_from_blob(&blob, &tensor)) ? 0 : to_java(tensor);
}

/* Keeps a direct buffer alive, and is notified when it is released. */
struct java_owner {
    JavaVM* vm;
    jobject buffer, released;
};

/* On any thread: one that Java does not know is introduced to it, and leaves again. */
static void release_java_owner(void* memory) {
    struct java_owner* owner = memory;
    JNIEnv* env = NULL;
    const int known =
        (*owner->vm)->GetEnv(owner->vm, (void**)&env, JNI_VERSION_10) == JNI_OK;
    if (known ||
        (*owner->vm)->AttachCurrentThread(owner->vm, (void**)&env, NULL) == JNI_OK) {
        jthrowable pending = (*env)->ExceptionOccurred(
            env); /* a release may come while an exception is on its way */
        (*env)->ExceptionClear(env);
        jmethodID run = (*env)->GetMethodID(
            env, (*env)->GetObjectClass(env, owner->released), "run", "()V");
        if (run != NULL) (*env)->CallVoidMethod(env, owner->released, run);
        (*env)->ExceptionClear(env);
        (*env)->DeleteGlobalRef(env, owner->released);
        (*env)->DeleteGlobalRef(env, owner->buffer);
        if (pending != NULL) (*env)->Throw(env, pending);
        if (!known) (*owner->vm)->DetachCurrentThread(owner->vm);
    }
    free(owner);
}

JNIEXPORT jlong JNICALL Java_isthmus_Tensor_wrap0(JNIEnv* env, jclass self,
                                                  jobject buffer, jlongArray shape,
                                                  jstring dtype, jobject released) {
    (void)self;
    int64_t sizes[max_ndim];
    char name[ISTHMUS_NAME_SIZE + 1] = {0};
    isthmus_dtype type;
    isthmus_tensor* tensor = NULL;
    const int ndim = read_dims(env, shape, sizes);
    if (ndim < 0) return 0;
    read_name(env, dtype, name);
    if (failed(env, isthmus_dtype_parse(name, &type))) return 0;
    int64_t wanted = (type.bits * type.lanes + 7) / 8;
    for (int i = 0; i < ndim; ++i)
        if (sizes[i] < 0 || __builtin_mul_overflow(wanted, sizes[i], &wanted))
            wanted = INT64_MAX;
    if (wanted > (*env)->GetDirectBufferCapacity(env, buffer)) {
        throw_plain(env, "java/lang/IllegalArgumentException",
                    "the buffer is smaller than the shape");
        return 0;
    }
    struct java_owner* owner = malloc(sizeof *owner);
    if (owner == NULL || (*env)->GetJavaVM(env, &owner->vm) != JNI_OK) {
        free(owner);
        throw_plain(env, "java/lang/OutOfMemoryError", "no memory for a tensor");
        return 0;
    }
    owner->buffer = (*env)->NewGlobalRef(env, buffer);
    owner->released = (*env)->NewGlobalRef(env, released);
    void* data = (*env)->GetDirectBufferAddress(env, buffer);
    const isthmus_device cpu = {1, 0};
    return failed(env, isthmus_wrap(data, sizes, NULL, ndim, type, cpu, 0,
                                    release_java_owner, owner, &tensor))
               ? 0
               : to_java(tensor);
}

JNIEXPORT jobjectArray JNICALL Java_isthmus_Tensor_toBlob0(JNIEnv* env, jclass self,
                                                           jlong handle) {
    (void)self;
    isthmus_blob blob;
    if (failed(env, isthmus_to_blob(to_c(handle), &blob))) return NULL;
    const int64_t numbers[] = {(intptr_t)blob.ptr, blob.element_size, blob.flags,
                               (intptr_t)blob.owner, (intptr_t)blob.release};
    jclass object = (*env)->FindClass(env, "java/lang/Object");
    jobjectArray fields =
        object != NULL ? (*env)->NewObjectArray(env, 5, object, NULL) : NULL;
    jobject values[] = {write_dims(env, numbers, 5),
                        write_dims(env, blob.shape, blob.ndim),
                        write_dims(env, blob.strides, blob.ndim),
                        (*env)->NewStringUTF(env, blob.dtype_name),
                        (*env)->NewStringUTF(env, blob.device_name)};
    for (int i = 0; i < 5; ++i) {
        if (fields == NULL ||
            values[i] ==
                NULL) { /* Java is out of memory, and nobody will take the owner */
            blob.release(blob.owner);
            return NULL;
        }
        (*env)->SetObjectArrayElement(env, fields, i, values[i]);
    }
    return fields;
}

JNIEXPORT jobject JNICALL Java_isthmus_Tensor_bytes0(JNIEnv* env, jclass self,
                                                     jlong handle) {
    (void)self;
    isthmus_tensor_info info;
    if (failed(env, isthmus_describe(to_c(handle), &info))) return NULL;
    if (info.device.type != 1 || !info.is_contiguous) {
        throw_plain(env, "java/lang/IllegalStateException",
                    "expected contiguous memory of the host");
        return NULL;
    }
    return (*env)->NewDirectByteBuffer(env, info.data, info.nbytes);
}

JNIEXPORT jboolean JNICALL Java_isthmus_Tensor_isReadOnly0(JNIEnv* env, jclass self,
                                                           jlong handle) {
    (void)self;
    isthmus_tensor_info info;
    return !failed(env, isthmus_describe(to_c(handle), &info)) &&
                   (info.flags & ISTHMUS_FLAG_READ_ONLY)
               ? JNI_TRUE
               : JNI_FALSE;
}

JNIEXPORT jlong JNICALL Java_isthmus_Tensor_address0(JNIEnv* env, jclass self,
                                                     jobject buffer) {
    (void)self;
    return (jlong)(intptr_t)(*env)->GetDirectBufferAddress(env, buffer);
}

JNIEXPORT jlong JNICALL Java_isthmus_Tensor_retain0(JNIEnv* env, jclass self,
                                                    jlong handle) {
    (void)self;
    return failed(env, isthmus_retain(to_c(handle))) ? 0 : handle;
}

JNIEXPORT void JNICALL Java_isthmus_Tensor_release0(JNIEnv* env, jclass self,
                                                    jlong handle) {
    (void)self;
    failed(env, isthmus_release(to_c(handle)));
}
