// What a call has to throw.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <isthmus/isthmus.h>

namespace isthmus_test {

/// That `f` throws an isthmus::Error with this code and these words.
template <class F>
void expect_error(isthmus::ErrorCode code, const char* text, F f) {
    try {
        (void)f();
        FAIL() << "nothing was thrown";
    } catch (const isthmus::Error& error) {
        EXPECT_EQ(error.code(), code);
        EXPECT_STREQ(error.what(), text);
    }
}

}  // namespace isthmus_test
