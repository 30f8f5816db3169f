"""Structs of tensors: taken from every form that Python has of them, all or nothing, and given back in it;
and trees."""

from __future__ import annotations

import dataclasses
import enum
import gc
import sys
import types
import typing
import weakref
from collections import OrderedDict, defaultdict, namedtuple

import capsules
import interrupts
import libraries
import numpy as np
import pytest

INDPTR = np.array([0, 1, 1, 3], np.int32)
INDICES = np.array([2, 0, 3], np.int32)
DATA = np.array([1.0, 2.0, 4.0])
SHAPE = (3, 4)
TOTAL = 4007.0


@dataclasses.dataclass
class Matrix:
    indptr: typing.Any
    indices: typing.Any
    data: typing.Any
    shape: typing.Any
    note: str = "mine"


Named = namedtuple("Named", "note shape data indices indptr")


def fields(**other):
    return {"indptr": INDPTR, "indices": INDICES, "data": DATA, "shape": SHAPE, **other}


def scipy_csr():
    return pytest.importorskip("scipy.sparse").csr_array((DATA, INDICES, INDPTR), shape=SHAPE)


def torch_csr():
    torch = pytest.importorskip("torch")
    parts = (torch.from_numpy(each.copy()) for each in (INDPTR, INDICES, DATA))
    with torch.sparse.check_sparse_tensor_invariants():
        return torch.sparse_csr_tensor(*parts, size=SHAPE)


@pytest.fixture(autouse=True)
def wide_types_of_jax_for_one_test():
    yield
    if jax := sys.modules.get("jax"):
        jax.config.update("jax_enable_x64", False)


def jax_bcsr():
    jax = libraries.library("jax")
    sparse = pytest.importorskip("jax.experimental.sparse")
    jax.config.update("jax_enable_x64", True)
    return sparse.BCSR((jax.numpy.asarray(DATA), jax.numpy.asarray(INDICES), jax.numpy.asarray(INDPTR)), shape=SHAPE)


FORMS = {
    "dict": fields,
    "OrderedDict": lambda: OrderedDict(fields()),
    "mapping": lambda: types.MappingProxyType(fields()),
    "dataclass": lambda: Matrix(**fields()),
    "named tuple": lambda: Named(note="mine", **fields()),
    "namespace": lambda: types.SimpleNamespace(note="mine", **fields()),
    "tuple": lambda: (INDPTR, INDICES, DATA, SHAPE),
    "list": lambda: [INDPTR, INDICES, DATA, list(SHAPE)],
    "scipy": scipy_csr,
    "torch": torch_csr,
    "jax": jax_bcsr,
}


@pytest.mark.parametrize("form", FORMS)
class TestForms:
    def test_in(self, ext, form):
        assert ext.matrix_sum(FORMS[form]()) == TOTAL

    def test_in_and_out(self, ext, form):
        given = FORMS[form]()
        made = ext.twice_matrix(given)
        if form == "mapping":
            assert type(made) is dict
        elif form == "OrderedDict":
            assert made == dict(made)
        else:
            assert type(made) is type(given)
        assert ext.matrix_sum(made) == 4014
        assert ext.matrix_sum(given) == TOTAL

    def test_references(self, ext, form):
        given = FORMS[form]()
        gc.collect()
        before = [sys.getrefcount(x) for x in (INDPTR, INDICES, DATA, given)]
        for _ in range(20):
            ext.matrix_sum(given)
            ext.twice_matrix(given)
        gc.collect()
        assert [sys.getrefcount(x) for x in (INDPTR, INDICES, DATA, given)] == before


def test_a_dict_that_makes_what_is_missing_makes_nothing(ext):
    given = defaultdict(lambda: np.zeros(3, np.float32), x=np.ones(3, np.float32))
    with pytest.raises(TypeError, match=r"this collections\.defaultdict has no 'y'"):
        ext.copy_pair(given)
    assert list(given) == ["x"]


class TestTheFormComesBack:
    def test_dataclass(self, ext):
        made = ext.twice_matrix(Matrix(**fields(note="kept")))
        assert (made.note, made.shape, made.data.tolist()) == ("kept", SHAPE, [2, 4, 8])

    def test_named_tuple(self, ext):
        made = ext.twice_matrix(Named(note="kept", **fields()))
        assert (made.note, made.data.tolist()) == ("kept", [2, 4, 8])

    def test_namespace(self, ext):
        given = types.SimpleNamespace(note="kept", **fields())
        made = ext.twice_matrix(given)
        assert (made.note, made.data.tolist(), given.data.tolist()) == ("kept", [2, 4, 8], [1, 2, 4])

    def test_what_was_set_besides_the_fields(self, ext):
        class WithCache(Matrix):
            pass

        class NamedMore(Named):
            pass

        for given in (WithCache(**fields()), NamedMore(note="mine", **fields())):
            given.cache = [1]
            made = ext.twice_matrix(given)
            assert type(made) is type(given)
            assert (made.cache, made.note, made.data.tolist()) == ([1], "mine", [2, 4, 8])

    def test_a_dataclass_whose_constructor_takes_other_arguments(self, ext):
        @dataclasses.dataclass(frozen=True)
        class Read:
            path: str
            indptr: typing.Any = dataclasses.field(init=False)
            indices: typing.Any = dataclasses.field(init=False)
            data: typing.Any = dataclasses.field(init=False)
            shape: typing.Any = dataclasses.field(init=False)

            def __post_init__(self):
                for name, value in fields().items():
                    object.__setattr__(self, name, value)

        given = Read("a.npz")
        made = ext.twice_matrix(given)
        assert type(made) is Read
        assert (made.path, made.data.tolist(), given.data.tolist()) == ("a.npz", [2, 4, 8], [1, 2, 4])

    @pytest.mark.parametrize("base", [list, tuple])
    def test_a_sequence_whose_constructor_takes_other_arguments(self, ext, base):
        class Parts(base):
            def __new__(cls, size, items):
                return super().__new__(cls, items)

            def __init__(self, size, items):
                if base is list:
                    super().__init__(items)
                self.size = size

            def __reduce_ex__(self, protocol):
                return Parts, (self.size, base(self))

        made = ext.twice_matrix(Parts(7, (INDPTR, INDICES, DATA, SHAPE)))
        assert (type(made), made.size, made[2].tolist()) == (Parts, 7, [2, 4, 8])

    def test_the_framework_of_each_field(self, ext, torch):
        made = ext.twice_matrix(fields(data=torch.from_numpy(DATA)))
        assert (type(made["data"]), type(made["indptr"])) == (torch.Tensor, np.ndarray)

    def test_scipy(self, ext):
        given = scipy_csr()
        made = ext.twice_matrix(given)
        assert (made.shape, made.format) == (SHAPE, "csr")
        assert abs(made - 2 * given).sum() == 0
        assert type(ext.twice_matrix(pytest.importorskip("scipy.sparse").csr_matrix(given))).__name__ == "csr_matrix"

    def test_torch(self, ext, torch):
        made = ext.twice_matrix(torch_csr())
        assert made.layout is torch.sparse_csr
        assert torch.equal(made.to_dense(), 2 * torch_csr().to_dense())

    def test_jax(self, ext):
        made = ext.twice_matrix(jax_bcsr())
        np.testing.assert_array_equal(made.todense(), 2 * jax_bcsr().todense())

    def test_a_struct_without_an_argument_is_a_dict(self, ext):
        made = ext.twice_matrix_as_dict(scipy_csr())
        assert list(made) == ["indptr", "indices", "data", "shape"]
        assert np.asarray(made["data"]).tolist() == [2, 4, 8]
        assert made["shape"] == SHAPE


NAMES = "'indptr', 'indices', 'data', 'shape'"
MISTAKES = {
    "dtype": (
        lambda: fields(data=DATA.astype("f4")),
        ValueError,
        ".data': expected float64[nnz] on cpu, got float32[3] on cpu: ",
    ),
    "size": (
        lambda: fields(data=DATA[1:]),
        ValueError,
        ".data': expected float64[nnz] on cpu, got float64[2] on cpu: nnz is 2 here",
    ),
    "too small": (
        lambda: fields(indptr=INDPTR[:0]),
        ValueError,
        ".indptr': expected int32[rows+1] on cpu, got int32[0] on cpu: ",
    ),
    "shape": (lambda: fields(shape=(1, 2, 3)), TypeError, ".shape': expected a sequence of 2 integers, got tuple"),
    "numbers": (lambda: fields(shape=("a", "b")), TypeError, ".shape': expected an integer, got str"),
    "no tensor": (lambda: fields(indices=[1, 2]), TypeError, ".indices': expected a tensor"),
    "a field less": (
        lambda: {"indptr": INDPTR},
        TypeError,
        f"': this dict has no 'indices'; expected the fields {NAMES}",
    ),
    "a short tuple": (lambda: (1, 2), TypeError, f"': expected {NAMES}, got a tuple of 2 objects"),
    "an array": (lambda: DATA, TypeError, "': this numpy.ndarray has no 'indptr'; expected the fields"),
    "a number": (lambda: 5, TypeError, "': this int has no 'indptr'"),
    "scipy csc": (lambda: scipy_csr().tocsc(), ValueError, "': expected sparse format csr, got csc: scipy.sparse"),
    "scipy coo": (lambda: scipy_csr().tocoo(), ValueError, "': expected sparse format csr, got coo: scipy.sparse"),
    "torch csc": (
        lambda: torch_csr().to_sparse_csc(),
        ValueError,
        "': expected sparse format csr, got csc: torch.Tensor",
    ),
    "torch coo": (
        lambda: torch_csr().to_sparse_coo(),
        ValueError,
        "': expected sparse format csr, got coo: torch.Tensor",
    ),
}


class TestMistakes:
    @pytest.mark.parametrize("case", MISTAKES)
    def test_one_error_names_the_field(self, ext, case):
        given, kind, text = MISTAKES[case]
        with pytest.raises(kind) as failed:
            ext.twice_matrix(given())
        assert f"twice_matrix(): argument 'm{text}" in str(failed.value)

    def test_a_format_that_the_struct_does_not_tell(self, ext):
        with pytest.raises(
            BufferError, match=r"argument 'm': got a scipy.sparse.* of sparse format csr, and the struct does not say"
        ):
            ext.any_matrix(scipy_csr())
        assert ext.any_matrix(fields()) == 4

    def test_what_asking_raises_is_the_cause(self, ext):
        class Bad:
            indptr = INDPTR

            @property
            def indices(self):
                raise RuntimeError("not today")

        with pytest.raises(
            Exception, match=r"argument 'm\.indices': asking for this field raised RuntimeError: not today"
        ) as failed:
            ext.twice_matrix(Bad())
        assert isinstance(failed.value.__cause__, RuntimeError)

    @pytest.mark.parametrize("kind", interrupts.KINDS)
    @pytest.mark.parametrize("function", ["twice_matrix", "matrix_sum"])
    def test_interrupts_pass_through(self, ext, kind, function):
        class Bad:
            @property
            def indptr(self):
                raise kind

        with pytest.raises(kind):
            getattr(ext, function)(Bad())

    def test_without_a_name_another_overload_is_tried(self, ext):
        assert ext.sum_any(fields()) == TOTAL
        assert ext.sum_any({"offsets": np.array([0, 2]), "values": np.ones(2, np.float32)}) == 2
        with pytest.raises(TypeError):
            ext.sum_any({"offsets": np.array([0, 2])})

    def test_sizes_agree_with_other_arguments(self, ext):
        assert ext.weighted(fields(), np.ones(3)) == 7
        with pytest.raises(ValueError, match=r"nnz is 2 here and 3 in argument 'm'"):
            ext.weighted(fields(), np.ones(2))


class TestAllOrNothing:
    def test_a_capsule_is_whole_again(self, ext):
        first, second = (np.arange(3, dtype=np.float32).__dlpack__() for _ in range(2))
        with pytest.raises(ValueError, match=r"argument 'p\.y'"):
            ext.copy_pair({"x": first, "y": np.zeros(2, np.float32)})
        assert capsules.is_whole(first)
        with pytest.raises(TypeError):
            ext.keep_pair({"x": first, "y": 5})
        assert capsules.is_whole(first)
        ext.keep_pair({"x": first, "y": second})
        assert not capsules.is_whole(first)
        assert np.asarray(ext.kept_pair()["x"]).tolist() == [0, 1, 2]

    def test_a_write_is_announced_when_all_fit(self, ext, torch):
        y = torch.zeros(3)
        version = y._version
        with pytest.raises(ValueError, match=r"n is 3 here and 2 in argument 'p\.x'"):
            ext.copy_pair({"x": np.zeros(2, np.float32), "y": y})
        assert y._version == version
        ext.copy_pair({"x": np.arange(3, dtype=np.float32), "y": y})
        assert (y.tolist(), y._version) == ([0, 1, 2], version + 1)

    def test_read_only_memory(self, ext):
        y = np.zeros(3, np.float32)
        y.flags.writeable = False
        with pytest.raises(ValueError, match=r"argument 'p\.y': the memory of this numpy\.ndarray is read-only"):
            ext.copy_pair({"x": np.zeros(3, np.float32), "y": y})

    def test_fields_live_for_the_call_alone(self, ext):
        class Fresh:
            def __init__(self):
                self.made = []

            def __getattr__(self, name):
                if name not in fields():
                    raise AttributeError(name)
                value = fields()[name]
                if isinstance(value, np.ndarray):
                    value = value.copy()
                    self.made.append(weakref.ref(value))
                return value

        fresh = Fresh()
        assert ext.matrix_sum(fresh) == TOTAL
        assert [ref() for ref in fresh.made] == [None] * 3

    def test_kept_tensors_hold_their_memory(self, ext):
        ext.keep_pair((np.arange(3, dtype=np.float32), np.ones(2)))
        gc.collect()
        kept = ext.kept_pair()
        assert np.asarray(kept["x"]).tolist() == [0, 1, 2]
        assert np.asarray(kept["y"]).tolist() == [1, 1]


class TestOtherStructs:
    def test_a_ragged_pair(self, ext):
        given = (np.array([0, 2, 3]), np.array([1, 2, 3], np.float32))
        made = ext.twice_ragged(given)
        assert type(made) is tuple
        assert (made[0].tolist(), made[1].tolist()) == ([0, 2, 3], [2, 4, 6])

    def test_a_record_batch(self, ext):
        pyarrow = pytest.importorskip("pyarrow")
        given = pyarrow.record_batch(
            {"values": pyarrow.array([1, 2, 3], "float32"), "offsets": pyarrow.array([0, 2, 3], "int64")}
        )
        made = ext.twice_ragged(given)
        assert type(made) is pyarrow.RecordBatch
        assert made.to_pydict() == {"offsets": [0, 2, 3], "values": [2, 4, 6]}
        with pytest.raises(TypeError, match=r"argument 'r': this pyarrow.* has no 'values'"):
            ext.twice_ragged(given.select(["offsets"]))

    def layer(self, inputs, outputs, bias=True):
        layer = {"weight": np.full((outputs, inputs), 2, np.float32)}
        return {**layer, "bias": np.ones(outputs, np.float32)} if bias else layer

    def test_structs_in_structs(self, ext):
        made = ext.negate_model({"first": self.layer(2, 3), "second": self.layer(3, 3, bias=False), "scale": 1.5})
        assert made["first"]["weight"].tolist() == [[-2, -2]] * 3
        assert made["first"]["bias"].tolist() == [1, 1, 1]
        assert made["second"]["bias"] is None
        assert made["scale"] == 1.5

    def test_each_struct_names_its_own_sizes(self, ext):
        model = {
            "first": self.layer(2, 3),
            "second": {**self.layer(2, 5), "bias": np.ones(4, np.float32)},
            "scale": 1.5,
        }
        with pytest.raises(
            ValueError, match=r"argument 'm\.second\.bias'.*out is 4 here and 5 in argument 'm\.second\.weight'"
        ):
            ext.negate_model(model)

    def test_what_is_optional(self, ext):
        model = {"first": self.layer(2, 2), "second": self.layer(2, 2, bias=False), "scale": 1, "step": 7}
        assert ext.negate_model(model)["scale"] == 7
        assert ext.negate_model({**model, "step": None})["scale"] == 1
        with pytest.raises(TypeError, match=r"argument 'm\.scale': expected a number, got str"):
            ext.negate_model({**model, "scale": "x"})

    def test_a_state_dict(self, ext, torch):
        module = torch.nn.Module()
        module.first, module.second = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)
        module.register_buffer("scale", None)
        state = {**module.state_dict(), "scale": 1.0}
        with torch.no_grad():
            made = ext.negate_model(state)
        assert list(made) == ["first.weight", "first.bias", "second.weight", "second.bias", "scale"]
        assert torch.equal(made["first.weight"], -module.first.weight)
        del state["second.weight"]
        with pytest.raises(
            TypeError, match=r"has no 'second\.weight'; expected the fields 'second\.weight', 'second\.bias'"
        ):
            ext.negate_model(state)

    def test_signatures_say_the_fields(self, ext):
        assert (
            "indptr: int32[rows+1] on cpu; indices: int32[nnz] on cpu; data: float64[nnz] on cpu; shape"
            in ext.matrix_sum.__doc__
        )
        assert "y: writable float32[n] on cpu" in ext.copy_pair.__doc__


Point = namedtuple("Point", "x y")


class TestTrees:
    TREE: typing.ClassVar = {
        "layers": [{"w": np.ones((2, 2)), "b": np.zeros(2, np.float32)}, (np.arange(3), Point(np.ones(1), None))],
        "step": 3,
        "name": "x",
        5: np.ones(2, bool),
    }

    def test_paths(self, ext):
        assert ext.leaves_of(self.TREE).split("\n")[:-1] == [
            "layers.0.w float64", "layers.0.b float32", "layers.1.0 int64", "layers.1.1.0 float64", "5 bool",
        ]  # fmt: skip
        assert ext.leaves_of(np.ones(2)) == " float64\n"
        assert ext.leaves_of([]) == ""

    def test_a_key_with_any_character(self, ext):
        ones = np.ones(2)
        assert ext.leaves_of({"a\0b": ones, "a": ones, "é": ones}) == "a\0b float64\na float64\né float64\n"
        with pytest.raises(TypeError, match=r"argument 'tree.a\\x00b': expected a tensor"):
            ext.leaves_of({"a\0b": object()})

    def test_a_key_that_is_no_text(self, ext):
        class Key:
            def __init__(self, raised):
                self.raised = raised

            def __str__(self):
                raise self.raised

        with pytest.raises(Exception, match=r"argument 'tree\.a': a key of this dict raised UnicodeEncodeError"):
            ext.leaves_of({"a": {"\udc80": np.ones(2)}})
        with pytest.raises(Exception, match="argument 'tree': a key of this dict raised ValueError: mine"):
            ext.leaves_of({Key(ValueError("mine")): np.ones(2)})
        with pytest.raises(KeyboardInterrupt):
            ext.leaves_of({Key(KeyboardInterrupt()): np.ones(2)})

    def test_the_same_tree_of_others(self, ext):
        made = ext.copied_tree(self.TREE, False)
        assert list(made) == list(self.TREE)
        assert (made["step"], made["name"]) == (3, "x")
        assert type(made["layers"][1]) is tuple
        assert type(made["layers"][1][1]) is Point
        assert made["layers"][1][1].y is None
        assert made["layers"][0]["w"].tolist() == [[1, 1], [1, 1]]
        assert made["layers"][0]["w"] is not self.TREE["layers"][0]["w"]

    def test_frameworks_and_kinds_of_dict(self, ext, torch):
        made = ext.copied_tree(OrderedDict(a=torch.ones(2), b=np.ones(2)), False)
        assert type(made) is OrderedDict
        assert (type(made["a"]), type(made["b"])) == (torch.Tensor, np.ndarray)

    def test_what_is_no_tensor(self, ext):
        with pytest.raises(TypeError, match=r"argument 'tree.a.1': expected a tensor .*, got object"):
            ext.leaves_of({"a": [np.ones(2), object()]})

    def test_one_tensor_for_each(self, ext):
        with pytest.raises(
            ValueError, match=r"argument 'tensors': found 4 tensors; expected 5, one for each of the tree"
        ):
            ext.copied_tree(self.TREE, True)

    def test_a_tree_in_itself(self, ext):
        tree = [np.ones(1)]
        tree.append(tree)
        with pytest.raises(Exception, match=r"raised RecursionError"):
            ext.leaves_of(tree)

    def test_the_tree_ends_with_the_call(self, ext):
        class Marked(dict):
            pass

        tree = Marked(a=np.ones(2))
        ref = weakref.ref(tree)
        ext.copied_tree(tree, False)
        del tree
        gc.collect()
        assert ref() is None

    def test_a_class_of_its_own_is_kept_with_its_attributes(self, ext):
        class Settings(dict):
            def __init__(self, name, **items):
                super().__init__(**items)
                self.name = name

        class Layers(list):
            def __init__(self, width, depth):
                super().__init__()
                self.size = width, depth

        class Pair(tuple):
            def __new__(cls, first, second):
                return super().__new__(cls, (first, second))

        class Mirrored(OrderedDict):
            def __setitem__(self, key, value):
                super().__setitem__(key, value)
                self.__dict__[key] = value

        layers = Layers(3, 2)
        layers.append(np.ones(2))
        pair = Pair(np.zeros(2), 7)
        pair.note = "mine"
        mirrored = Mirrored(x=np.full(2, 5.0))
        made = ext.copied_tree(Settings("n", layers=layers, pair=pair, mirrored=mirrored), False)
        assert (type(made), made.name) == (Settings, "n")
        assert (type(made["layers"]), made["layers"].size, len(made["layers"])) == (Layers, (3, 2), 1)
        assert made["layers"][0].tolist() == [1, 1]
        assert made["layers"][0] is not layers[0]
        assert (type(made["pair"]), made["pair"].note, made["pair"][1]) == (Pair, "mine", 7)
        assert made["pair"][0] is not pair[0]
        assert made["mirrored"].x is made["mirrored"]["x"] is not mirrored.x
        assert type(layers[0]) is type(pair[0]) is np.ndarray

    def test_a_struct_of_c_code(self, ext, torch):
        made = ext.copied_tree(torch.max(torch.ones(2, 3), 0), False)
        assert type(made) is torch.return_types.max
        assert made.values.tolist() == [1, 1, 1]

    def test_what_cannot_be_made_again_is_refused_by_name(self, ext):
        class Frozen(dict):
            def __setitem__(self, key, value):
                raise TypeError("frozen")

        class Sealed(Frozen):
            def __copy__(self):
                made = type(self)()
                dict.update(made, self)
                return made

        class Bare(dict):
            def __copy__(self):
                return dict(self)

        class Closed(list):
            def __reduce_ex__(self, protocol):
                raise ValueError("closed")

        class Sized(list):
            def __new__(cls, size):
                return super().__new__(cls)

        again = "of the tree cannot be made again for other tensors: "
        for made, text in (
            (Frozen(a=np.ones(1)), rf"Frozen {again}copy.copy\(\) raised TypeError: frozen"),
            (Sealed(a=np.ones(1)), f"Sealed {again}setting an item raised TypeError: frozen"),
            (Bare(a=np.ones(1)), f"Bare {again}copying it gives an object of another class"),
            (Sized([np.ones(1)]), rf"Sized {again}copy.copy\(\) raised TypeError: .*'size'"),
            (Closed([np.ones(1)]), rf"Closed {again}copy.copy\(\) raised ValueError: closed"),
        ):
            with pytest.raises(BufferError, match=text):
                ext.copied_tree([made], False)

    def test_an_interrupt_passes(self, ext):
        class Stopped(dict):
            def __copy__(self):
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            ext.copied_tree(Stopped(a=np.ones(1)), False)

    def test_numbers_and_texts_of_every_kind_stay(self, ext):
        class Colour(enum.IntEnum):
            RED = 1

        class Word(str):
            __slots__ = ()

        stay = [np.float32(1.5), np.int64(3), np.bool_(True), np.complex64(1j), np.datetime64("2020-01-01"),
                np.str_("x"), Colour.RED, Word("w"), 1.5, True, b"b", None]  # fmt: skip
        made = ext.copied_tree([*stay, np.float32(1.5) * np.ones(())], False)
        assert all(new is old for new, old in zip(made, stay, strict=False))
        assert ext.leaves_of(stay) == ""

    def test_a_list_that_changes_while_it_is_read(self, ext):
        class Other:
            """Its tensor is asked for once, and that changes the list."""

            def __init__(self, change):
                self.change = change

            def __dlpack_device__(self):
                return (1, 0)

            def __dlpack__(self, **options):
                self.change()
                return np.ones(2).__dlpack__(**options)

        shrinking: list = [np.ones(2)]
        shrinking += [Other(shrinking.clear), *(np.ones(2) for _ in range(50))]
        assert ext.leaves_of(shrinking).count("float64") == 52
        growing: list = []
        growing.append(Other(lambda: growing.append(Other(lambda: None))))
        assert ext.leaves_of(growing) == "0 float64\n"
        emptied = [np.ones(2), np.ones(2)]
        emptied.append(Other(emptied.clear))
        with pytest.raises(ValueError, match="the tree was changed after it was read: expected one of 3 tensors"):
            ext.copied_tree(emptied, False)
        growing = [np.ones(2)]
        growing.append(Other(lambda: growing.append(np.ones(2))))
        with pytest.raises(ValueError, match="the tree was changed after it was read: expected one of 2 tensors"):
            ext.copied_tree(growing, False)
        nested = {"a": [np.ones(2)]}
        nested["b"] = Other(lambda: nested.update(a=[np.ones(1), np.ones(1)]))
        with pytest.raises(ValueError, match="the tree was changed after it was read: expected one of 2 tensors"):
            ext.copied_tree(nested, False)


class Shrinks:
    """A number that takes everything out of a list when it is asked for."""

    def __init__(self, items):
        self.items = items

    def __index__(self):
        self.items.clear()
        return 3


def test_a_list_of_fields_that_shrinks_while_it_is_read(ext):
    class Other:
        def __init__(self, array):
            self.array = array

        def __dlpack_device__(self):
            return (1, 0)

        def __dlpack__(self, **options):
            items.clear()
            return self.array.__dlpack__(**options)

    for shape in (SHAPE, [3, 4]):
        items: list = [Other(INDPTR), INDICES, DATA, shape]
        assert ext.matrix_sum(items) == TOTAL
    sizes: list = []
    sizes += [Shrinks(sizes), 4]
    assert ext.matrix_sum(fields(shape=sizes)) == TOTAL
