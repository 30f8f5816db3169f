"""Operators on many threads, in forked children, at the end, beside others of their name, and asked wrongly."""

from __future__ import annotations

import threading

import numpy as np
import pytest


def test_torch_and_eager_calls_on_many_threads(bare):
    torch = pytest.importorskip("torch")
    pytest.importorskip("isthmus.operators")
    a, b = torch.rand(20, 3), torch.rand(30, 3)
    expected, wrong = ((a[:, None] - b[None]) ** 2).sum(-1), []
    bare.distance(a, b)

    def call():
        for _ in range(100):
            x = a.clone().requires_grad_()
            results = bare.distance(a, b), torch.ops.geo.distance(a, b), bare.distance(x, b)
            results[2].sum().backward()
            if not all(torch.allclose(r, expected, atol=1e-5) for r in results):
                wrong.append(results)

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_errors_on_many_threads_are_each_its_own(bare):
    said: list[set[str]] = []

    def call(how: str):
        texts = set()
        for _ in range(200):
            try:
                bare.fail(np.ones(3, np.float32), how)
            except Exception as error:
                texts.add(str(error))
        said.append(texts)

    threads = [threading.Thread(target=call, args=(how,)) for how in ("value", "index", "runtime")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(sorted, said)) == [["fail(): a bad value"], ["fail(): far out"], ["fail(): it broke"]]


def test_a_forked_child_calls_on(run_script):
    pytest.importorskip("torch")
    assert (
        run_script(
            """
        import os, torch, numpy as np, isthmus_operators_test_ext as ext
        torch.set_num_threads(1)
        x = torch.ones(1, 2)
        ext.distance(x, x)
        child = os.fork()
        if child == 0:
            y = x.clone().requires_grad_()
            ext.distance(y, 2 * x).sum().backward()
            good = y.grad.tolist() == [[-2.0, -2.0]] and torch.ops.geo.distance(x, 2 * x).item() == 2
            good = good and ext.distance.ufunc(np.ones((1, 2)), np.zeros((1, 2))).item() == 2
            os._exit(0 if good else 1)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        """
        )
        == "0\n"
    )


def test_the_interpreter_ends_while_threads_call(run_script):
    run_script(
        """
        import threading, time, numpy as np, isthmus_operators_test_ext as ext
        a = np.ones((200, 3), np.float32)
        def call():
            while True:
                ext.distance(a, a)
        for _ in range(4):
            threading.Thread(target=call, daemon=True).start()
        time.sleep(0.2)
        """
    )


def test_an_operator_outlives_its_module(run_script):
    assert (
        run_script(
            """
        import gc, sys, weakref, numpy as np, isthmus_operators_test_ext as ext
        f = ext.distance
        module = weakref.ref(ext)
        del sys.modules["isthmus_operators_test_ext"], ext
        gc.collect()
        x = np.ones((1, 2), "f4")
        print(f(x, 2 * x).item(), module() is None)
        """
        )
        == "2.0 True\n"
    )


def test_it_works_without_the_package(run_script):
    pytest.importorskip("torch")
    said = run_script(
        """
        import sys
        class NoPackage:
            def find_spec(self, name, path=None, target=None):
                if name.split(".")[0] == "isthmus":
                    raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        sys.meta_path.insert(0, NoPackage())
        import torch, numpy as np, isthmus_operators_test_ext as ext
        x = torch.ones(1, 2)
        print(ext.distance(x, 2 * x).item(), ext.distance.ufunc(np.ones((1, 2)), np.ones((1, 2))).item())
        try:
            ext.distance(x.requires_grad_(), x)
        except BufferError as error:
            print(error)
        """
    )
    assert said.startswith("2.0 0.0\ndistance(): argument 'a': it requires grad, and")
    assert "needs the package isthmus" in said


def test_a_keyboard_interrupt_of_a_scalar_passes(bare):
    class Interrupting:
        def __float__(self):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bare.scale(np.ones(3, np.float32), Interrupting())


def test_two_modules_with_one_name_work_eagerly(bare):
    other = pytest.importorskip("isthmus_operators_pybind11_test_ext")
    x = np.arange(3, dtype=np.float32)
    assert bare.twice(x).tolist() == other.twice(x).tolist() == [0, 2, 4]
    assert bare.twice is not other.twice


def test_a_call_by_name_needs_no_torch(run_script):
    said = run_script(
        """
        import sys, numpy as np, isthmus_operators_test_ext as ext
        x = np.ones((1, 2), np.float32)
        print(ext.distance.__call__(x, x).shape, "torch" in sys.modules)
        """
    )
    assert said == "(1, 1) False\n"


def test_an_interrupt_as_torch_is_told_of_an_operator_passes(run_script):
    pytest.importorskip("torch")
    said = run_script(
        """
        import isthmus_operators_test_ext as ext, torch, isthmus.operators
        def interrupt(*arguments):
            raise KeyboardInterrupt
        isthmus.operators._offer, offer = interrupt, isthmus.operators._offer
        x, calls = torch.ones(1, 2), ext.last_call()[2]
        try:
            ext.distance(x, x)
        except KeyboardInterrupt:
            print("interrupted", ext.last_call()[2] - calls)
        isthmus.operators._offer = offer
        print(ext.distance(x, 2 * x).item(), torch.ops.geo.distance(x, 2 * x).item())
        """
    )
    assert said == "interrupted 0\n2.0 2.0\n"


def test_an_interrupt_as_a_module_registers_its_operators_comes_again(run_script):
    pytest.importorskip("torch")
    said = run_script(
        """
        import signal, torch, isthmus.operators
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
        def interrupt(*arguments):
            raise KeyboardInterrupt
        isthmus.operators._offer, offer = interrupt, isthmus.operators._offer
        try:
            import isthmus_operators_test_ext as ext
            for _ in range(1000):
                pass
        except KeyboardInterrupt:
            print("interrupted")
        isthmus.operators._offer = offer
        import isthmus_operators_test_ext as ext
        x = torch.ones(1, 2)
        print(ext.distance(x, 2 * x).item())
        """
    )
    assert said == "interrupted\n2.0\n"


class LeavesInference:
    """An array that ends torch's inference mode as it is imported."""

    def __init__(self, torch, array):
        self.mode, self.array = torch.inference_mode(), array
        self.mode.__enter__()

    def leave(self):
        if self.mode is not None:
            self.mode.__exit__(None, None, None)
            self.mode = None

    def __dlpack__(self, **options):
        self.leave()
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


@pytest.mark.parametrize("how", ["in place", "out"])
def test_a_write_that_torch_refuses_at_last_is_not_made(ext, how):
    torch = pytest.importorskip("torch")
    last = LeavesInference(torch, np.ones(3, np.float32 if how == "in place" else np.float64))
    try:
        x = torch.zeros(3) if how == "in place" else torch.zeros((), dtype=torch.float64)
        with pytest.raises(BufferError, match=r"inference tensor must not be written") as caught:
            ext.add_to(x, last) if how == "in place" else ext.weighted(np.full(3, 2.0), None, out=(x, last))
    finally:
        last.leave()
    assert caught.value.code == "requires_grad"
    assert not x.any()
    assert last.array.tolist() == [1, 1, 1]


def test_what_torch_compiles_is_asked_for_where_no_python_runs(run_script):
    pytest.importorskip("torch")
    said = run_script(
        """
        import _thread, operator, time
        import isthmus.operators, torch, isthmus_operators_test_ext as ext
        found = []
        # A thread that runs functions of C alone has no frame.
        _thread.start_new_thread(found.extend, (map(operator.attrgetter("_traced"), [ext.distance]),))
        end = time.monotonic() + 60
        while not found and time.monotonic() < end:
            time.sleep(0.001)
        print(found == [ext.distance._traced])
        """
    )
    assert said == "True\n"


VECTOR = ("float64", (3,))
# What the package asks of an operator: rules without data, and to be put into torch.
ASKED_WRONGLY = {
    "nothing": (lambda op: op._infer(), TypeError, "argument"),
    "no sequence": (lambda op: op._infer(3), TypeError, "expected a sequence"),
    "too few": (lambda op: op._infer([VECTOR]), ValueError, "dot(): expected 2 arguments"),
    "dimensions": (lambda op: op._infer([("float64", (1,) * 65), VECTOR]), ValueError, "65 dimensions"),
    "no size": (lambda op: op._infer([("float64", ("x",)), VECTOR]), TypeError, "integer"),
    "batch": (
        lambda op: op._infer([VECTOR, VECTOR], -2),
        ValueError,
        "dot(): found -2 leading dimensions; expected 0 or more",
    ),
    "key": (lambda op: op._implement_torch(3), TypeError, "argument"),
    "text": (lambda op: op._implement_torch("\ud800"), UnicodeEncodeError, "surrogates"),
}


@pytest.mark.parametrize("name", ASKED_WRONGLY)
def test_what_the_package_asks_is_checked(bare, name):
    call, error, text = ASKED_WRONGLY[name]
    with pytest.raises(error) as caught:
        call(bare.dot)
    assert text in str(caught.value)


def test_the_size_of_a_result_is_checked_without_data_too(bare):
    with pytest.raises(ValueError, match=r"first\(\): argument 'k': found -1"):
        bare.first._infer([("float32", (3,)), -1])


def test_a_key_that_torch_has_not_is_refused(bare):
    pytest.importorskip("torch")
    pytest.importorskip("isthmus.operators")
    with pytest.raises(Exception, match="operator 'geo::dot': torch refused it: "):
        bare.dot._implement_torch("NoSuchKey")
