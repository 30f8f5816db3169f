// SPDX-License-Identifier: Apache-2.0
#include "listener.h"

#include <stdexcept>

namespace {

constexpr const char* source = R"(
import importlib.util, pathlib, warnings
import torch

warnings.simplefilter("ignore")  # of torch.jit, which loads this model well
torch.set_num_threads(1)
kept = []

def load(path):
    global model
    if not path:
        package = importlib.util.find_spec("silero_vad")
        if package is None:
            raise ImportError("give the path of a TorchScript model, or install the package silero-vad")
        path = pathlib.Path(package.origin).parent / "data" / "silero_vad.jit"
    model = torch.jit.load(path)

def listen(audio):
    kept.append(audio)  # Python holds C++'s memory from here to its own end
    with torch.no_grad():
        return torch.cat([model(chunk[None], 16000).flatten() for chunk in audio.split(512) if len(chunk) == 512])
)";

[[noreturn]] void fail(const char* doing) {
    PyErr_Print();
    throw std::runtime_error(doing);
}

}  // namespace

Interpreter::Interpreter() {
    PyConfig config;
    PyConfig_InitPythonConfig(&config);
    PyStatus status =
        PyConfig_SetBytesString(&config, &config.program_name, EMBED_PYTHON);
    if (!PyStatus_Exception(status)) status = Py_InitializeFromConfig(&config);
    PyConfig_Clear(&config);
    if (PyStatus_Exception(status))
        throw std::runtime_error(status.err_msg != nullptr ? status.err_msg
                                                           : "no interpreter");
}

bool Interpreter::end() { return Py_IsInitialized() == 0 || Py_FinalizeEx() == 0; }

Listener::Listener(const std::string& model) {
    functions_ = isthmus::Ref(PyDict_New());
    isthmus::Ref ran(
        PyRun_String(source, Py_file_input, functions_.get(), functions_.get()));
    if (!ran) fail("the Python half does not run");
    isthmus::Ref loaded(PyObject_CallFunction(
        PyDict_GetItemString(functions_.get(), "load"), "s", model.c_str()));
    if (!loaded) fail("the model cannot be loaded");
}

at::Tensor Listener::listen(const isthmus::Tensor& audio) {
    isthmus::Ref shared(isthmus::to_py(audio, isthmus::Framework::torch).value());
    isthmus::Ref heard(PyObject_CallOneArg(
        PyDict_GetItemString(functions_.get(), "listen"), shared.get()));
    if (!heard) fail("listening failed");
    return isthmus::from_py_torch(heard.get()).value();
}
