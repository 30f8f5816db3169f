// Everything behind isthmus/python/api.h. Included by isthmus/python.h unless ISTHMUS_COMPILED is defined, and then by one
// source file of the project: src/python/isthmus_python.cpp does it for CMake's isthmus::python_compiled.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/from_py.h>
#include <isthmus/python/object/tensor_type.h>
#include <isthmus/python/to_py.h>
