// Nothing of c10 stands in a declaration of isthmus/torch.h but what ATen/ops/from_blob.h has.
// SPDX-License-Identifier: Apache-2.0
#pragma once
