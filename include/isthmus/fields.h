// Structs of tensors: one declaration of the fields, taken from any form that Python has of them and given back in it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python.h>  // Python.h must come before any standard header

#include <isthmus/python/fields/declare.h>
#include <isthmus/python/fields/parameter.h>
#include <isthmus/python/fields/reply.h>
