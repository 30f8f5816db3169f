/* SPDX-License-Identifier: Apache-2.0
 * A Java virtual machine in a process of another runtime: start it once, send it
 * messages, stop it once. */
#include <jni.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static JavaVM* vm = NULL;

/* 0, or the error of JNI_CreateJavaVM. `jni_library` is the library with the native
 * methods: the one of this file. */
int jvm_start(const char* class_path, const char* jni_library) {
    char path[4096], library[4096];
    if ((size_t)snprintf(path, sizeof path, "-Djava.class.path=%s", class_path) >=
            sizeof path ||
        (size_t)snprintf(library, sizeof library, "-Disthmus.jni=%s", jni_library) >=
            sizeof library)
        return JNI_EINVAL;
    /* -Xrs leaves the signals of the process to the runtime that was there first. */
    JavaVMOption options[] = {
        {path, NULL}, {library, NULL}, {"-Xrs", NULL}, {"-Xcheck:jni", NULL}};
    JavaVMInitArgs arguments = {JNI_VERSION_10, sizeof options / sizeof options[0],
                                options, JNI_FALSE};
    JNIEnv* env = NULL;
    return JNI_CreateJavaVM(&vm, (void**)&env, &arguments);
}

/* Ends the machine, on the thread that started it. One that a process leaves running at
   its exit goes on watching the signal handlers while its own statics are being
   destroyed, and complains of them. */
int jvm_stop(void) {
    const int status = vm == NULL ? JNI_OK : (*vm)->DestroyJavaVM(vm);
    vm = NULL;
    return status;
}

/* The result of Exchange.answer(verb, message), to be freed with jvm_free(); NULL if
 * there is no answer. */
char* jvm_call(const char* verb, const char* message) {
    JNIEnv* env = NULL;
    char* answer = NULL;
    if (vm == NULL || (*vm)->AttachCurrentThread(vm, (void**)&env, NULL) != JNI_OK ||
        (*env)->PushLocalFrame(env, 16) != 0)
        return NULL;
    jclass type = (*env)->FindClass(env, "Exchange");
    jmethodID method =
        type == NULL ? NULL
                     : (*env)->GetStaticMethodID(
                           env, type, "answer",
                           "(Ljava/lang/String;Ljava/lang/String;)Ljava/lang/String;");
    if (method != NULL) {
        jstring said = (*env)->NewStringUTF(env, message),
                what = (*env)->NewStringUTF(env, verb);
        jstring text = (*env)->CallStaticObjectMethod(env, type, method, what, said);
        const char* chars = !(*env)->ExceptionCheck(env) && text != NULL
                                ? (*env)->GetStringUTFChars(env, text, NULL)
                                : NULL;
        if (chars != NULL) {
            answer = strdup(chars);
            (*env)->ReleaseStringUTFChars(env, text, chars);
        }
    }
    if ((*env)->ExceptionCheck(env)) {
        (*env)->ExceptionDescribe(env);
        (*env)->ExceptionClear(env);
    }
    (*env)->PopLocalFrame(env, NULL);
    return answer;
}

void jvm_free(char* answer) { free(answer); }
