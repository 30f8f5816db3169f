// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/torch.h>

#include <string>

/// The interpreter, for as long as this lives.
class Interpreter {
public:
    Interpreter();
    /// False when the interpreter could not end well.
    bool end();
    ~Interpreter() { end(); }
    Interpreter(const Interpreter&) = delete;
    Interpreter& operator=(const Interpreter&) = delete;
};

/// A pretrained voice detector that Python runs.
class Listener {
public:
    /// `model` is a TorchScript file; empty for the one in the package silero-vad.
    /// Throws std::runtime_error.
    explicit Listener(const std::string& model);
    /// The probability of a voice, for every 512 samples. The audio is shared with
    /// Python, which may keep it.
    at::Tensor listen(const isthmus::Tensor& audio);

private:
    isthmus::Ref functions_;
};
